"""Runs the real command in a process of its own, and finds processes and files that it leaves behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import final

from tests.trials.emulate.clusters import remains

__all__ = ["Job", "ended"]

ROOT = Path(__file__).parents[2]
MARK = "AUTOSYNC_TEST_JOB"
PATIENCE_SECONDS = 180.0
STARTING_SECONDS = 30.0
LEAVING_SECONDS = 30.0
"""Seconds that the job's processes may take to end after the command, because Ray ends them without waiting."""

ENDED_BY_RAY = re.compile(r"(?ms)^[^\n]*pid=\d+\)[^\n]*Exception ignored in.*?SystemExit: 1$")
"""Lines of a worker that Ray ends by an exception, while Python just runs a function that must not raise."""


def _on_head(cluster: str | None) -> list[str]:
    return [] if cluster is None else [sys.executable, "-m", "autosync", "emulate", "exec", "--name", cluster, "--"]


def _heed_ctrl_c() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


@final
class Job:
    """Start `python -m MODULE ...` in `directory`; its session or its mark identifies every process that it starts.

    `cluster` names an emulated cluster on whose head the command runs. `before` are words before the command that run
    it as another user, whose home is `directory`.
    """

    def __init__(
        self,
        directory: Path,
        *arguments: str,
        cluster: str | None = None,
        module: str = "autosync.tune",
        before: tuple[str, ...] = (),
    ) -> None:
        self._mark = f"{MARK}={uuid.uuid4().hex}"
        self._stdout, self._stderr = (directory / f"{name}-{uuid.uuid4().hex[:6]}.txt" for name in ("out", "err"))
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        home = {"HOME": str(directory)} if before else {}
        with self._stdout.open("w") as stdout, self._stderr.open("w") as stderr:
            self._process = subprocess.Popen(
                [*before, *_on_head(cluster), sys.executable, "-X", "faulthandler", "-m", module, *arguments],
                cwd=directory,
                env=os.environ | home | {"PYTHONPATH": path, MARK: self._mark.partition("=")[2]},
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
                # If this test runs in the background, Ctrl-C may be ignored or blocked, and children inherit that.
                preexec_fn=_heed_ctrl_c,
            )

    @property
    def output(self) -> str:
        return self._stdout.read_text()

    @property
    def complaint(self) -> str:
        """The job's standard error."""
        return self._stderr.read_text()

    def wait_for(self, text: str) -> None:
        """Wait until the command has printed `text`."""
        self.wait_until(lambda: text in self.output, repr(text))

    def wait_until(self, holds: Callable[[], bool], what: str, look_seconds: float = 0.05) -> None:
        """Wait until `holds()`, checking at this interval; `what` names the condition in the failure message."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not holds():
            assert self._process.poll() is None, f"{what} never came:\n{self.output}{self.complaint}"
            assert time.monotonic() < deadline, f"{what} did not come in time:\n{self.output}{self.complaint}"
            time.sleep(look_seconds)

    def status(self) -> int:
        """The exit status of the job. A job that hangs is ended, and its failure shows where its threads were."""
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(PATIENCE_SECONDS)
        self._process.send_signal(signal.SIGABRT)  # the signal on which faulthandler writes down every thread's stack
        return self._process.wait(LEAVING_SECONDS)

    def press_ctrl_c(self) -> None:
        """Press Ctrl-C as a terminal does: for every process in the foreground, which is the command's group."""
        os.killpg(self._process.pid, signal.SIGINT)

    def ask_to_end(self, number: int, whole_group: bool = False) -> None:
        """Send SIGTERM or SIGHUP to the command itself, as `kill` does, or to its group, as `timeout` does."""
        (os.killpg if whole_group else os.kill)(self._process.pid, number)

    def kill(self) -> None:
        """Send SIGKILL to the command itself, and to none of its processes."""
        self._process.kill()
        self._process.wait()

    def kill_one(self, title: str) -> None:
        """Send SIGKILL to the first of the job's processes whose title begins with this text."""
        self.signal_one(title, signal.SIGKILL)

    def signal_one(self, title: str, number: signal.Signals) -> None:
        """Send a signal to the first of the job's processes whose title begins with this text, once there is one."""
        deadline = time.monotonic() + STARTING_SECONDS
        while not (found := self.titled(title)) and time.monotonic() < deadline:
            time.sleep(0.1)  # a lost worker is being replaced
        os.kill(found[0], number)

    def titled(self, title: str) -> list[int]:
        """Ids of the job's processes whose title begins with this text, or whose program has this name."""
        commands = {pid: _file(pid, "cmdline").partition(b"\0")[0].decode(errors="replace") for pid in self.processes()}
        return [pid for pid, command in commands.items() if command.startswith(title) or Path(command).name == title]

    def left_behind(self, seconds: float = LEAVING_SECONDS) -> list[str]:
        """Command lines of the job's processes that are still alive this many seconds after the command has ended."""
        deadline = time.monotonic() + seconds
        while (alive := self.processes()) and time.monotonic() < deadline:
            time.sleep(0.1)
        return [_file(pid, "cmdline").replace(b"\0", b" ").decode() for pid in alive]

    def of_its_cluster(self) -> list[str]:
        """Names of this machine's resources that belong to the cluster that the job made as root."""
        return remains(f"tune{self._process.pid}")

    def end(self) -> None:
        """Kill every remaining process of the job."""
        for pid in self.processes():
            with suppress(ProcessLookupError):  # the process may have ended in between
                os.kill(pid, signal.SIGKILL)
        self._process.wait()

    def processes(self) -> list[int]:
        """Living processes of the session, and those that left it but have its environment."""
        numbers = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        return [pid for pid in numbers if self._is_ours(pid)]

    def _is_ours(self, pid: int) -> bool:
        # After the name in brackets: state, parent, group, session.
        state, _, _, session = (_file(pid, "stat").rpartition(b") ")[2].split() + [b"Z"] * 4)[:4]
        in_session = session == str(self._process.pid).encode()
        return state != b"Z" and (in_session or self._mark.encode() in _file(pid, "environ").split(b"\0"))


def _file(pid: int, name: str) -> bytes:
    """The content of a file of a process; empty if the process has ended."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def ended(job: Job, status: int, looking_for_processes: bool = True) -> str:
    """The job's output after it has ended with `status`; the job must neither complain nor leave a process behind."""
    assert job.status() == status, job.output + job.complaint
    if looking_for_processes:
        assert job.left_behind() == []
    printed = ENDED_BY_RAY.sub("", job.output + job.complaint)
    assert "Traceback" not in printed, printed
    return job.output
