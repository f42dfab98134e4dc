"""Signals put off to a better moment: Ctrl-C, requests to end, a closed terminal."""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import final


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
    if _ending is not None and _ending.waits:
        _ending.interrupt(None)


@final
@dataclass
class Ending:
    """A request to end, as a block of `requests_end_as_ctrl_c` has received it. `number` is the signal's, 0 before."""

    number: int = 0
    waits: bool = False

    def interrupt(self, frame: FrameType | None) -> None:
        """Do as Ctrl-C does at this moment; while Ctrl-C is ignored, note that this is still to be done."""
        now = signal.getsignal(signal.SIGINT)
        self.waits = not callable(now)
        if callable(now):
            now(signal.SIGINT, frame)

    def status(self, status: int, interrupted: int) -> int:
        """The exit status of a command that ended with `status`: shells add 128 to the number of a signal."""
        return 128 + self.number if self.number and status == interrupted else status


_ending: Ending | None = None
"""That of the block that this process is in."""


@contextmanager
def requests_end_as_ctrl_c() -> Iterator[Ending]:
    """The first SIGTERM or SIGHUP in the block does as Ctrl-C does, and later ones do nothing.

    A sender may repeat the first one, and a repetition must not cut the clean-up off. Under nohup SIGHUP stays ignored.
    """
    global _ending
    before, _ending = _ending, Ending()
    ending = _ending

    def receive(number: int, frame: FrameType | None) -> None:
        if ending.number:
            return
        ending.number = number
        _turn_dead_streams_away()
        ending.interrupt(frame)

    try:
        with _handled_in_frame((signal.SIGTERM, signal.SIGHUP), receive):
            yield ending
    finally:
        _ending = before


def requested_end() -> int:
    """The number of the signal that asked this process to end, 0 if none did."""
    return 0 if _ending is None else _ending.number


@contextmanager
def handlers_stay() -> Iterator[None]:
    """Handlers of SIGTERM and SIGHUP are after the block as before it: Ray, when it starts, puts its own there."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            if callable(handler):
                signal.signal(number, handler)


def _turn_dead_streams_away() -> None:
    """Let output go nowhere where its terminal is gone: an error of the write would cut the command's end short."""
    for stream in (1, 2):
        try:
            os.write(stream, b"")
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream)
            os.close(nowhere)


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
    with _handled_in_frame(numbers, lambda number, _frame: receiver(number)):
        yield


@contextmanager
def _handled_in_frame(numbers: Sequence[int], handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # Python lets the main thread alone decide on signals
        return

    before = {number: signal.getsignal(number) for number in numbers}
    changed = {number: old for number, old in before.items() if old != signal.SIG_IGN}
    try:
        for number in changed:
            signal.signal(number, handler)
        yield
    finally:
        for number, old in changed.items():
            signal.signal(number, old)
