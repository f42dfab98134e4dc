"""A guard: a small process beside this one that ends what this one has started, should it be killed.

What is started inside `Guard.marks` inherits a mark in its environment, and so does all that comes from it, whoever its
parent becomes. Once the guarded process is gone, however that came, the guard kills whatever bears the mark.

This file is also the guard's program, which Python runs by itself: it imports the standard library alone.
"""

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import final

MARKS = "AUTOSYNC_GUARDS"
"""The marks of all guards that a process is subject to, with spaces between."""

LOOK_SECONDS = 1.0
"""Seconds between the guard's looks at whether its process lives."""

AGAIN_SECONDS, QUIET_LOOKS, PATIENCE_SECONDS = 0.2, 3, 60.0
"""Seconds between looks for what bears the mark, how many in a row must miss it, and the most seconds of looking."""


@final
class Guard:
    """Guards this process from now on, until `end` or its death. There is no guard where processes have no /proc."""

    def __init__(self, then: Sequence[str] = ()) -> None:
        """`then` is a command to run at last, from where this package lies and in this process's environment."""
        self._mark = uuid.uuid4().hex
        self._process: subprocess.Popen[bytes] | None = None
        if not Path("/proc/self/environ").exists():
            return
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(__file__).resolve()), str(os.getpid()), self._mark, *then],
            # No guard ends another, which has its own to tidy up.
            env={name: value for name, value in os.environ.items() if name != MARKS},
            cwd="/",
            start_new_session=True,  # out of reach for Ctrl-C and for the end of a terminal
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @contextmanager
    def marks(self) -> Iterator[None]:
        """Mark a block: what is started in it bears the mark."""
        before = {name: os.environ.get(name) for name in (MARKS, "SPT_NOENV")}
        os.environ[MARKS] = f"{before[MARKS] or ''} {self._mark}".strip()
        os.environ["SPT_NOENV"] = "1"  # else Ray's processes write their titles over their environment
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value

    def end(self) -> None:
        """Guard no more; nothing that bears the mark is touched. A second call does no harm."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@contextmanager
def guarded(then: Sequence[str] = ()) -> Iterator[None]:
    """Guard a block: what is started in it ends if this process is killed, and then `then` is run."""
    guard = Guard(then)
    try:
        with guard.marks():
            yield
    finally:
        guard.end()


_guards: dict[int, Guard] = {}


def guard_of_this_process() -> Guard:
    """A guard that lives as long as this process; a fork gets its own."""
    guard = _guards.get(os.getpid())
    if guard is None or not guard.runs():
        guard = _guards[os.getpid()] = Guard()
    return guard


def main(guarded_pid: str, mark: str, *then: str) -> None:
    """Wait until the process that started this one is gone, and tidy up."""
    while os.getppid() == int(guarded_pid):
        time.sleep(LOOK_SECONDS)
    _end_all(mark.encode())
    if then:
        subprocess.run(then, cwd=Path(__file__).parents[1], check=False)


def _end_all(mark: bytes) -> None:
    """Kill what bears the mark until none is left: what is killed may just have started another."""
    deadline, quiet = time.monotonic() + PATIENCE_SECONDS, 0
    while quiet < QUIET_LOOKS and time.monotonic() < deadline:
        marked = [int(each) for each in os.listdir("/proc") if each.isdigit() and mark in _environment(each)]
        for pid in marked:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        quiet = 0 if marked else quiet + 1
        time.sleep(AGAIN_SECONDS)


def _environment(pid: str) -> bytes:
    """The environment that a process was started with; empty when the process is gone or another user's."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


if __name__ == "__main__":
    main(*sys.argv[1:])
