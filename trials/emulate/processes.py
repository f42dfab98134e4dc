"""Processes that outlive the command that started them, told apart from later ones with the same number."""

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
    """Have `end_all` take the exit status of `child`, which lives in a host.

    The kernel lets a host's first process go only when all others have been reaped; what came from outside is reaped
    by its parent, and that may be the very process that waits for the host's end.
    """
    _born_inside.add(child)


@dataclass(frozen=True)
class Process(Noun):
    """A process number with its start, in clock ticks since the boot named; no other process has all three."""

    pid: int
    start_ticks: int
    boot: str

    @classmethod
    def of(cls, pid: int) -> Process:
        """The process that has the number `pid` now. Raises `ProcessLookupError` when there is none."""
        fields = _stat(pid)
        return cls(pid, int(fields[19]), _boot())

    def runs(self) -> bool:
        """Whether the process is still there; a zombie is not."""
        try:
            fields = _stat(self.pid)
        except ProcessLookupError:
            return False
        return fields[0] not in "ZX" and int(fields[19]) == self.start_ticks and _boot() == self.boot

    def kill(self) -> None:
        """End the process at once, if it is still the same one."""
        try:
            descriptor = os.pidfd_open(self.pid)  # stands for one process even if the number is given to another
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
    """A process that is to outlive this one, and that reads a line before it begins.

    It gets the line when the block is over, is ended when that fails, and reads the end of its input when this process
    is killed. In the block it
    is to be written down, so that there is none that no file tells of.
    """
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    started = subprocess.Popen(
        list(argv), bufsize=0, start_new_session=True, cwd="/", stdin=subprocess.PIPE, **(quiet | popen)
    )
    started.returncode = 0  # it is to outlive this object, which would warn otherwise; `end_all` reaps it
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
    """Kill the processes and wait until they are gone; return those that are still there after a while."""
    left = list(processes)
    for process in left:
        process.kill()
    deadline = time.monotonic() + END_SECONDS
    while left and time.monotonic() < deadline:
        for child in list(_born_inside):
            child.poll()
        left = [process for process in left if not _gone(process)]
        if left:
            time.sleep(0.02)
    return left


def _gone(process: Process) -> bool:
    if process.runs():
        return False
    with contextlib.suppress(ChildProcessError):
        os.waitpid(process.pid, os.WNOHANG)
    return True


def _stat(pid: int) -> list[str]:
    """Fields of /proc/PID/stat from the third on; the second, in brackets, is the name and may hold anything."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        raise ProcessLookupError(f"No process {pid}.") from None
    return text.rpartition(")")[2].split()


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
