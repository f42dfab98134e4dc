"""Watching the head of a Ray cluster: without it Ray ends this process after a minute, and says little."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable

__all__ = ["answers", "watch_head"]

LOOK_SECONDS, PATIENCE_SECONDS = 3.0, 20.0


def answers(address: str, timeout_seconds: float = LOOK_SECONDS) -> bool:
    """Whether somebody listens at `address`, such as 10.0.0.1:6379."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=timeout_seconds).close()
    except OSError:
        return False
    return True


def watch_head(
    address: str,
    when_lost: Callable[[], None],
    patience_seconds: float = PATIENCE_SECONDS,
    look_seconds: float = LOOK_SECONDS,
) -> Callable[[], None]:
    """Call `when_lost` in a thread once the head at `address` has not answered for so long; return what ends that."""
    over = threading.Event()

    def watch() -> None:
        answered = time.monotonic()
        while not over.wait(look_seconds):
            if answers(address, look_seconds):
                answered = time.monotonic()
            elif time.monotonic() - answered >= patience_seconds:
                when_lost()
                return

    threading.Thread(target=watch, name="head-watch", daemon=True).start()
    return over.set
