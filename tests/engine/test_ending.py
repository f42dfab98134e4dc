"""Forks of a model function end with their thread; forks of the rest of the program do not."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import nullcontext

import pytest

from autosync.engine.core.marked_processes import forks_end_with_this


def fork_in_a_thread() -> int:
    """Return the pid of a sleeping child whose forking thread has ended."""
    pids: list[int] = []
    reader, writer = os.pipe()

    def fork() -> None:
        child = os.fork()
        if not child:
            os.write(writer, b"I run")
            time.sleep(60)
            os._exit(0)
        os.read(reader, 1)  # wait: a thread that ends before the child asks for the signal sends none
        pids.append(child)

    thread = threading.Thread(target=fork)
    thread.start()
    thread.join()
    os.close(reader)
    os.close(writer)
    return pids[0]


@pytest.mark.parametrize("is_in_a_block", [True, False])
def test_only_forks_in_the_block_end_with_their_thread(is_in_a_block: bool) -> None:
    with forks_end_with_this():
        pass  # installs the hook
    with forks_end_with_this() if is_in_a_block else nullcontext():
        child = fork_in_a_thread()
    deadline = time.monotonic() + (10 if is_in_a_block else 0.5)
    status = None
    while status is None and time.monotonic() < deadline:
        ended, status_now = os.waitpid(child, os.WNOHANG)
        status = status_now if ended else None
        time.sleep(0.01)
    if is_in_a_block:
        assert status is not None
        assert os.WTERMSIG(status) == signal.SIGKILL
    else:
        assert status is None
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
