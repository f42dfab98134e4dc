"""Defers signals (Ctrl-C, requests to end, a closed terminal) to a safe moment."""

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import final

FORKING_CODE: object = subprocess.Popen._execute_child.__code__  # type: ignore[attr-defined]
"""The code of the method of `subprocess` that forks."""

REPEAT_SECONDS = 0.01
"""Seconds until a signal is sent again that arrived while a process started."""


@contextmanager
def ctrl_c_is_ignored() -> Iterator[None]:
    """Ignore Ctrl-C in the block, and always in processes that start in the block.

    A terminal sends Ctrl-C to all processes alike. Ray's processes would die one by one before they can be ended in
    order, and some would remain.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # in Python only the main thread can set signal handlers
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    with _requests_wait():
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)


@contextmanager
def _requests_wait() -> Iterator[None]:
    """Delay a request to end until the end of the outermost of these blocks."""
    global _delays
    _delays += 1
    try:
        yield
    finally:
        _delays -= 1
    if _ending is not None and _ending.waits:
        _ending.interrupt(None)


@final
@dataclass
class Ending:
    """A request to end, as received by a block of `requests_end_as_ctrl_c`."""

    number: int = 0
    """The number of the signal; 0 before a signal."""
    waits: bool = False
    """True if the signal arrived in a block of `_requests_wait` and must still be handled."""

    def interrupt(self, frame: FrameType | None) -> None:
        """Act like Ctrl-C now; in a block of `_requests_wait`, note that this is still to be done.

        A shell without job control starts `autosync ... &` with Ctrl-C ignored; the default handler then stands for it.
        """
        self.waits = _delays > 0
        if not self.waits:
            now = signal.getsignal(signal.SIGINT)
            (now if callable(now) else signal.default_int_handler)(signal.SIGINT, frame)

    def status(self, status: int, interrupted: int) -> int:
        """Return the exit status of a command that ended with `status`: shells add 128 to the number of a signal."""
        return 128 + self.number if self.number and status == interrupted else status


_delays = 0
"""The number of open blocks of `_requests_wait`."""

_ending: Ending | None = None
"""The request to end of the current block; None outside of blocks."""


@contextmanager
def requests_end_as_ctrl_c() -> Iterator[Ending]:
    """Let the first SIGTERM or SIGHUP in the block act like Ctrl-C, and ignore later ones.

    A sender may repeat the signal, and a repetition must not interrupt the clean-up. Under nohup, SIGHUP stays ignored.
    """
    global _ending
    before, _ending = _ending, Ending()
    ending = _ending

    def receive(number: int, frame: FrameType | None) -> None:
        if ending.number:
            return
        ending.number = number
        _discard_dead_output()
        ending.interrupt(frame)

    try:
        with _handle_signals_in_frame((signal.SIGTERM, signal.SIGHUP), receive):
            yield ending
    finally:
        _ending = before


def end_signal() -> int:
    """Return the number of the signal that asked this process to end; 0 if there was none."""
    return 0 if _ending is None else _ending.number


@contextmanager
def handlers_stay() -> Iterator[None]:
    """Restore the handlers of SIGTERM and SIGHUP after the block, because Ray installs its own when it starts."""
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


def _discard_dead_output() -> None:
    """Redirect output to nowhere if its terminal is gone, because a write error would interrupt the end of the
    command.
    """
    for stream in (1, 2):
        try:
            os.write(stream, b"")
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream)
            os.close(nowhere)


@contextmanager
def ctrl_c_waits() -> Iterator[None]:
    """Delay Ctrl-C to the end of the block; a second Ctrl-C acts at once.

    For blocks of a few seconds that would leave processes behind if interrupted, such as shutting Ray down. A forked
    child that has not yet become another program prints no traceback in such a block.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        with _requests_wait():
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
    """Pass Ctrl-C, requests to end and a closed terminal to `receiver` as signal numbers, without any other effect.

    Signals that this process ignores, for example under nohup, stay ignored.
    """
    with _handle_signals((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), receiver):
        yield


@contextmanager
def ending_unwinds() -> Iterator[None]:
    """Raise SystemExit at the first request to end or closed terminal in the block, and ignore later ones."""
    seen: list[int] = []

    def unwind(number: int) -> None:
        seen.append(number)
        if len(seen) == 1:
            raise SystemExit(128 + number)

    with _handle_signals((signal.SIGTERM, signal.SIGHUP), unwind):
        yield


@contextmanager
def _handle_signals(numbers: Sequence[int], receiver: Callable[[int], None]) -> Iterator[None]:
    with _handle_signals_in_frame(numbers, lambda number, _frame: receiver(number)):
        yield


@contextmanager
def _handle_signals_in_frame(
    numbers: Sequence[int], handler: Callable[[int, FrameType | None], None]
) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # in Python only the main thread can set signal handlers
        return

    def handle(number: int, frame: FrameType | None) -> None:
        # Python discards an exception that is raised in a fork hook, and an interrupted hook, such as that of logging,
        # never releases its lock. Ctrl-C keeps this fault: Python's own handler raises at once.
        if not _starts_a_process(frame):
            handler(number, frame)
        elif os.getpid() == process:
            threading.Timer(REPEAT_SECONDS, os.kill, (process, number)).start()
        else:  # the child, before it becomes another program
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    process, before = os.getpid(), {number: signal.getsignal(number) for number in numbers}
    changed = {number: old for number, old in before.items() if old != signal.SIG_IGN}
    try:
        for number in changed:
            signal.signal(number, handle)
        yield
    finally:
        for number, old in changed.items():
            signal.signal(number, old)


def _starts_a_process(frame: FrameType | None) -> bool:
    """Whether the code in `frame` was called while `subprocess` forks."""
    while frame is not None and frame.f_code is not FORKING_CODE:
        frame = frame.f_back
    return frame is not None
