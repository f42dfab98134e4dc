"""Processes that outlive the command that started them, distinguished from later processes with the same number."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast
from weakref import WeakSet

from autosync.spec.codec import Noun

END_SECONDS = 20.0
"""Seconds that the kernel may take to remove a killed process; a host's end waits for all its processes."""

_born_inside: WeakSet[subprocess.Popen[Any]] = WeakSet()


def remember_to_reap(child: subprocess.Popen[Any]) -> None:
    """Let `end_all` take the exit status of `child`, which lives in a host.

    The kernel removes a host's first process only after all others have been reaped. A process started from outside is
    reaped by its parent, which may be the very process that waits for the host's end.
    """
    _born_inside.add(child)


@dataclass(frozen=True)
class Process(Noun):
    """A process number with its start in clock ticks and the boot id; no other process has all three."""

    pid: int
    start_ticks: int
    boot: str

    @classmethod
    def of(cls, pid: int) -> Process:
        """Return the process with the number `pid`. Raises `ProcessLookupError` if there is none."""
        fields = _stat(pid)
        return cls(pid, int(fields[19]), _boot())

    def runs(self) -> bool:
        """True if the process still exists; a zombie does not count."""
        try:
            fields = _stat(self.pid)
        except ProcessLookupError:
            return False
        return fields[0] not in "ZX" and int(fields[19]) == self.start_ticks and _boot() == self.boot

    def kill(self) -> None:
        """End the process at once, if the number still belongs to it."""
        try:
            descriptor = os.pidfd_open(self.pid)  # a pidfd refers to one process even if its number is reused
        except ProcessLookupError:
            return
        try:
            if self.runs():
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        finally:
            os.close(descriptor)


@contextmanager
def outliving(argv: Sequence[str], **popen: Any) -> Iterator[Process]:
    """Start a process that outlives this one; it reads a line before it begins its work.

    The process gets the line at the end of the block. It is killed if the block fails, and its input ends if this
    process is killed. The block must record the process in a file, so that every such process is recorded.
    """
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    started = subprocess.Popen(
        list(argv), bufsize=0, start_new_session=True, cwd="/", stdin=subprocess.PIPE, **(quiet | popen)
    )
    started.returncode = 0  # the process must outlive this object, which would warn otherwise; `end_all` reaps it
    pipe = cast(IO[bytes], started.stdin)
    with pipe:
        process = Process.of(started.pid)
        try:
            yield process
        except BaseException:
            end_all([process])
            raise
        pipe.write(b"go on\n")


def end_all(processes: Iterable[Process]) -> list[Process]:
    """Kill the processes and wait until they are gone; return those that remain after `END_SECONDS`."""
    left = list(processes)
    for process in left:
        process.kill()
    deadline = time.monotonic() + END_SECONDS
    while left and time.monotonic() < deadline:
        for child in list(_born_inside):
            child.poll()
        left = [process for process in left if not _is_gone(process)]
        if left:
            time.sleep(0.02)
    return left


def _is_gone(process: Process) -> bool:
    if process.runs():
        return False
    with contextlib.suppress(ChildProcessError):
        os.waitpid(process.pid, os.WNOHANG)
    return True


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the third on.

    The second, in brackets, is the name and may hold anything.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        raise ProcessLookupError(f"No process {pid}.") from None
    return text.rpartition(")")[2].split()


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
