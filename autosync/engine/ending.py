"""Processes that bear a mark in their environment, and a program that ends them once its standard input ends.

A child inherits the mark, whether it was forked, spawned or put into a session of its own. Python runs this file by
itself: it imports the standard library alone.
"""

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

MARK = "AUTOSYNC_APART"
"""The environment variable that holds the mark."""

QUIET_LOOKS, LOOK_SECONDS, PATIENCE_SECONDS = 2, 0.02, 5.0
"""Looks in a row that must find no marked process, seconds between looks, and the most seconds of looking."""


def end_marked(mark: str) -> None:
    """Kill every process of this user whose environment holds `mark`, and those that they start meanwhile."""
    quiet, deadline = 0, time.monotonic() + PATIENCE_SECONDS
    while quiet < QUIET_LOOKS and time.monotonic() < deadline:
        pids = _marked(mark)
        quiet = 0 if pids else quiet + 1
        for pid in pids:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(LOOK_SECONDS)


@contextmanager
def forks_end_with_this() -> Iterator[None]:
    """In the block, let the kernel kill every process forked from this one once the thread that forked it ends.

    Python cannot take the hook away again, so a hook is installed once and does nothing outside of such blocks: forks
    of other parts of the program, made by threads that end at once, must live on.
    """
    global _installed, _blocks
    if not _installed and sys.platform.startswith("linux"):
        import ctypes

        prctl = ctypes.CDLL(None).prctl
        os.register_at_fork(after_in_child=lambda: prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL)) if _blocks else None)
        _installed = True
    _blocks += 1
    try:
        yield
    finally:
        _blocks -= 1


_installed = False

_blocks = 0

PR_SET_PDEATHSIG = 1
"""The number of the call of prctl(2) that asks for a signal at the parent's death."""


def _marked(mark: str) -> list[int]:
    wanted, found = f"{MARK}={mark}".encode(), []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if int(entry.name) != os.getpid() and wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


if __name__ == "__main__":
    os.read(0, 1)  # nothing is ever written
    end_marked(sys.argv[1])
