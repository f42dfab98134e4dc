"""Watching the head: a real listener that disappears."""

from __future__ import annotations

import socket
import threading

from trials.workers.local_ray import answers, watch_head


def listener() -> socket.socket:
    made = socket.create_server(("127.0.0.1", 0))
    made.settimeout(0.1)
    return made


def address_of(head: socket.socket) -> str:
    return f"127.0.0.1:{head.getsockname()[1]}"


def test_a_head_answers_while_it_listens() -> None:
    head = listener()
    address = address_of(head)
    assert answers(address)
    head.close()
    assert not answers(address)


def test_a_head_that_stops_answering_is_told_once() -> None:
    head, told = listener(), threading.Semaphore(0)
    watch_head(address_of(head), told.release, patience_seconds=0.1, look_seconds=0.02)
    assert not told.acquire(timeout=0.3), "it still listens"
    head.close()
    assert told.acquire(timeout=10.0)
    assert not told.acquire(timeout=0.3)


def test_nothing_is_told_once_the_watch_has_ended() -> None:
    head, told = listener(), threading.Semaphore(0)
    stop = watch_head(address_of(head), told.release, patience_seconds=0.1, look_seconds=0.02)
    stop()
    head.close()
    assert not told.acquire(timeout=0.5)
