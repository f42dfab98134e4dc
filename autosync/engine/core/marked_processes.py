"""Finds and ends processes with a mark in their environment; as a program, ends them once its standard input ends.

A child inherits the mark, whether it was forked, spawned or put into its own session. Python can run this file as a
script, because the file imports only the standard library.
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
    """Kill every process of this user whose environment holds `mark`, and the processes they start meanwhile."""
    # A process that is killed may have started another one just before, so several looks in a row must find none.
    quiet, deadline = 0, time.monotonic() + PATIENCE_SECONDS
    while quiet < QUIET_LOOKS and time.monotonic() < deadline:
        pids = _pids_with(mark)
        quiet = 0 if pids else quiet + 1
        for pid in pids:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(LOOK_SECONDS)


@contextmanager
def forks_end_with_this() -> Iterator[None]:
    """In the block, let the kernel kill every process forked from this one when the forking thread ends.

    Python cannot remove a fork hook, so the hook is installed once and does nothing outside such blocks. Other parts of
    the program fork in threads that end at once, and these forks must survive.
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
"""The prctl(2) operation that requests a signal at the parent's death."""


def _pids_with(mark: str) -> list[int]:
    entry_text, pids = f"{MARK}={mark}".encode(), []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if int(entry.name) != os.getpid() and entry_text in (entry / "environ").read_bytes().split(b"\0"):
                pids.append(int(entry.name))
    return pids


if __name__ == "__main__":
    os.read(0, 1)  # returns when the other end closes, because no process writes to it
    end_marked(sys.argv[1])
