"""Signals put off to a better moment: Ctrl-C, requests to end, a closed terminal."""

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType


@contextmanager
def ctrl_c_is_ignored() -> Iterator[None]:
    """Ctrl-C takes no effect in the block, and never does in processes that are started in it.

    A terminal sends Ctrl-C to all of them alike. Ray's would die one by one before they can be ended in order, and
    some would stay.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # Python lets the main thread alone decide on signals
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def ctrl_c_waits() -> Iterator[None]:
    """Ctrl-C takes effect at the end of the block, and a second one at once.

    For blocks of a few seconds that leave processes behind when they are cut off, such as shutting Ray down. A forked
    child that has yet to become another program prints no traceback in such a block.
    """
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        yield
        return
    pressed = False

    def note(_number: int, _frame: FrameType | None) -> None:
        nonlocal pressed
        if pressed:
            raise KeyboardInterrupt
        pressed = True

    before = signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        (before if callable(before) else signal.default_int_handler)(signal.SIGINT, None)


@contextmanager
def signals_go_to(receiver: Callable[[int], None]) -> Iterator[None]:
    """Ctrl-C, requests to end and a closed terminal do no more in the block than tell `receiver` their number.

    Those that this process ignores (under nohup, say) stay ignored.
    """
    with _handled((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), receiver):
        yield


@contextmanager
def ending_unwinds() -> Iterator[None]:
    """The first request to end or closed terminal in the block raises SystemExit, and later ones do nothing."""
    seen: list[int] = []

    def unwind(number: int) -> None:
        seen.append(number)
        if len(seen) == 1:
            raise SystemExit(128 + number)

    with _handled((signal.SIGTERM, signal.SIGHUP), unwind):
        yield


@contextmanager
def _handled(numbers: Sequence[int], receiver: Callable[[int], None]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # Python lets the main thread alone decide on signals
        return

    def handler(number: int, _frame: FrameType | None) -> None:
        receiver(number)

    before = {number: signal.getsignal(number) for number in numbers}
    changed = {number: old for number, old in before.items() if old != signal.SIG_IGN}
    try:
        for number in changed:
            signal.signal(number, handler)
        yield
    finally:
        for number, old in changed.items():
            signal.signal(number, old)
