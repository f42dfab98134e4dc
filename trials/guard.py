"""A guard: a small process that kills the descendants of this process if this process is killed.

Processes that start inside `Guard.marks` inherit a mark in their environment, and so do their descendants under any
parent. When the guarded process is gone, the guard kills every process with the mark.

The guard can be killed as well. A second line of defence is therefore a shell that waits for the end of a pipe, which
the kernel closes when the guarded process dies, and then becomes another guard. Its command line does not resemble that
of the first guard.

This file is also the guard's program, which Python runs by itself, so it imports only the standard library.
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
"""The environment variable with the marks of all guards of a process, separated by spaces."""

LOOK_SECONDS = 1.0
"""Seconds between the guard's checks of whether its process lives."""

AGAIN_SECONDS, QUIET_LOOKS, PATIENCE_SECONDS = 0.2, 3, 60.0
"""Seconds between searches for the mark, the consecutive searches that must find none, and the longest search in
seconds.
"""

SECOND_LINE = 'while read -r _; do :; done; exec "$AUTOSYNC_PYTHON" -I -S "$AUTOSYNC_SECOND" "$@"'
"""The script of the second line; its program is named in the environment, so that a kill by name does not match it."""


@final
class Guard:
    """Guards this process until `end` or its death. On systems without /proc there is no guard."""

    def __init__(self, then: Sequence[str] = ()) -> None:
        """`then` is a command to run last, from the folder of this package and in this process's environment.

        The command may run twice, so a second run must do no harm.
        """
        self._mark = uuid.uuid4().hex
        self._process: subprocess.Popen[bytes] | None = None
        self._second: subprocess.Popen[bytes] | None = None
        if not Path("/proc/self/environ").exists():
            return
        program = str(Path(__file__).resolve())
        words = [str(os.getpid()), self._mark, *then]
        self._process = _start_guard([sys.executable, "-I", "-S", program, "0", *words], subprocess.DEVNULL)
        second = ["/bin/sh", "-c", SECOND_LINE, "sh", str(self._process.pid), *words]
        self._second = _start_guard(second, subprocess.PIPE, AUTOSYNC_PYTHON=sys.executable, AUTOSYNC_SECOND=program)

    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @contextmanager
    def marks(self) -> Iterator[None]:
        """Mark the processes that start in the block."""
        before = {name: os.environ.get(name) for name in (MARKS, "SPT_NOENV")}
        os.environ[MARKS] = f"{before[MARKS] or ''} {self._mark}".strip()
        os.environ["SPT_NOENV"] = "1"  # otherwise Ray's processes overwrite their environment with their titles
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value

    def end(self) -> None:
        """Stop guarding; processes with the mark live on. A second call does nothing."""
        for process in filter(None, (self._second, self._process)):
            process.kill()
            process.wait()
            if process.stdin is not None:
                process.stdin.close()


def _start_guard(words: Sequence[str], stdin: int, **variables: str) -> subprocess.Popen[bytes]:
    """Start a guard without marks, because a guard must not end another guard, which has its own processes to end."""
    return subprocess.Popen(
        list(words),
        env={name: value for name, value in os.environ.items() if name != MARKS} | variables,
        cwd="/",
        start_new_session=True,  # not reached by Ctrl-C and by the end of a terminal
        stdin=stdin,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@contextmanager
def guarding(then: Sequence[str] = ()) -> Iterator[None]:
    """Guard a block: if this process is killed, processes that started in the block end, and then `then` is run."""
    guard = Guard(then)
    try:
        with guard.marks():
            yield
    finally:
        guard.end()


_guards: dict[int, Guard] = {}


def guard_of_this_process() -> Guard:
    """Return a guard that lives as long as this process; a fork gets its own guard."""
    guard = _guards.get(os.getpid())
    if guard is None or not guard.runs():
        guard = _guards[os.getpid()] = Guard()
    return guard


def main(first: str, guarded_pid: str, mark: str, *then: str) -> None:
    """Wait until the process that started this guard is gone, and the `first` guard if this is the second; then clean
    up.

    `first` is the process id of the first guard, or 0.
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
    """Kill all processes with the mark, repeatedly until none is left, because a process may just have started another
    one.
    """
    deadline, quiet = time.monotonic() + PATIENCE_SECONDS, 0
    while quiet < QUIET_LOOKS and time.monotonic() < deadline:
        marked = [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and mark in _environment(pid)]
        for pid in marked:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        quiet = 0 if marked else quiet + 1
        time.sleep(AGAIN_SECONDS)


def _environment(pid: str) -> bytes:
    """Return the environment that a process was started with; empty if the process is gone or another user's."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


def _command(pid: str) -> bytes:
    """Return the command line of the process; empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


if __name__ == "__main__":
    main(*sys.argv[1:])
