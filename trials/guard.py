"""A guard: a small process that ends the descendants of this process if this process is killed.

Processes that start inside `Guard.marks` inherit a mark in their environment, and so do their descendants under any
parent. When the guarded process is gone, the guard kills every process with the mark.

The guard can be killed as well. So there is a second line: a shell that waits for the end of a pipe, which the kernel
closes with the guarded process, and then becomes another guard. Nothing in its command line looks like the first one.

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
"""Seconds between looks for the mark, the looks in a row that must miss it, and the most seconds of looking."""

SECOND_LINE = 'while read -r _; do :; done; exec "$AUTOSYNC_PYTHON" -I -S "$AUTOSYNC_SECOND" "$@"'
"""The second line's script: its program stands in the environment, out of sight of a kill by name."""


@final
class Guard:
    """Guards this process from now on, until `end` or its death. There is no guard where processes have no /proc."""

    def __init__(self, then: Sequence[str] = ()) -> None:
        """`then` is a command to run at last, from the folder of this package and in this process's environment.

        It may run twice, so a second time must do no harm.
        """
        self._mark = uuid.uuid4().hex
        self._process: subprocess.Popen[bytes] | None = None
        self._second: subprocess.Popen[bytes] | None = None
        if not Path("/proc/self/environ").exists():
            return
        program = str(Path(__file__).resolve())
        words = [str(os.getpid()), self._mark, *then]
        self._process = _started([sys.executable, "-I", "-S", program, "0", *words], subprocess.DEVNULL)
        second = ["/bin/sh", "-c", SECOND_LINE, "sh", str(self._process.pid), *words]
        self._second = _started(second, subprocess.PIPE, AUTOSYNC_PYTHON=sys.executable, AUTOSYNC_SECOND=program)

    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @contextmanager
    def marks(self) -> Iterator[None]:
        """Mark a block: processes that start in it bear the mark."""
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
        for process in filter(None, (self._second, self._process)):
            process.kill()
            process.wait()
            if process.stdin is not None:
                process.stdin.close()


def _started(words: Sequence[str], stdin: int, **variables: str) -> subprocess.Popen[bytes]:
    """Start a guard. It bears no mark: no guard ends another one, which has its own processes to end."""
    return subprocess.Popen(
        list(words),
        env={name: value for name, value in os.environ.items() if name != MARKS} | variables,
        cwd="/",
        start_new_session=True,  # out of reach for Ctrl-C and for the end of a terminal
        stdin=stdin,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@contextmanager
def guarded(then: Sequence[str] = ()) -> Iterator[None]:
    """Guard a block: processes that start in it end if this process is killed, and then `then` is run."""
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


def main(first: str, guarded_pid: str, mark: str, *then: str) -> None:
    """Wait until the process that started this one is gone, and its `first` guard if this is the second; then clean up.

    `first` is the number of that guard, or 0.
    """
    while os.getppid() == int(guarded_pid):
        time.sleep(LOOK_SECONDS)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while mark.encode() in _command(first) and time.monotonic() < deadline:
        time.sleep(AGAIN_SECONDS)
    _end_all(mark.encode())
    if then:
        subprocess.run(then, cwd=Path(__file__).parents[1], check=False)


def _end_all(mark: bytes) -> None:
    """Kill all processes with the mark, again until none is left: one may just have started another."""
    deadline, quiet = time.monotonic() + PATIENCE_SECONDS, 0
    while quiet < QUIET_LOOKS and time.monotonic() < deadline:
        marked = [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and mark in _environment(pid)]
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


def _command(pid: str) -> bytes:
    """The command line of the process; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


if __name__ == "__main__":
    main(*sys.argv[1:])
