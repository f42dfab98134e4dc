"""Processes of one program in the hosts of an emulated cluster, which answer questions in JSON all at once."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, final

from trials.emulate import Host, start_inside

__all__ = ["ANSWER_SECONDS", "HostProcesses"]

ANSWER_SECONDS = 900.0

QUIET = {
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "CUDA_VISIBLE_DEVICES": "-1",
    "KERAS_BACKEND": "tensorflow",
    "OMP_WAIT_POLICY": "passive",  # as in the workers of trials
}


@final
class HostProcesses:
    """One process of `python -m MODULE ARGUMENTS` in each of `hosts`. The end of the context kills the processes."""

    def __init__(
        self,
        hosts: Sequence[Host],
        module: str,
        arguments: Sequence[str] = (),
        environments: Sequence[Mapping[str, str]] = (),
    ) -> None:
        """Start the processes; `environments`, one per host or none, extend the environment of this process."""
        self._module = module
        self._processes: list[subprocess.Popen[str]] = []
        self._lines: list[queue.Queue[str]] = []
        for index, host in enumerate(hosts):
            process = start_inside(
                host,
                [sys.executable, "-m", module, *arguments],
                env=os.environ | QUIET | dict(environments[index] if environments else {}),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            lines: queue.Queue[str] = queue.Queue()
            threading.Thread(target=_read, args=(process, lines), daemon=True).start()
            self._processes.append(process)
            self._lines.append(lines)

    def __enter__(self) -> HostProcesses:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, do: str, **fields: Any) -> list[Any]:
        """Return every process's answer to one question, in the order of the hosts."""
        return self.ask_each(do, [fields] * len(self._processes))

    def ask_each(self, do: str, fields: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Like `ask`, with separate fields per process. Raises `RuntimeError` if a process has ended or hangs."""
        for process, fields_of_process in zip(self._processes, fields, strict=True):
            assert process.stdin is not None
            process.stdin.write(json.dumps({"do": do, **fields_of_process}) + "\n")
            process.stdin.flush()
        return [self._answer(index, do) for index in range(len(self._processes))]

    def cpu_seconds(self) -> float:
        """Return the processor seconds of all processes so far, in user and kernel mode."""
        return sum(self.cpu_seconds_by_process())

    def cpu_seconds_by_process(self) -> list[float]:
        """Return the processor seconds of each process so far, in the order of the hosts."""
        return [sum(_ticks(process.pid)) / os.sysconf("SC_CLK_TCK") for process in self._processes]

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()

    def _answer(self, index: int, do: str) -> Any:
        try:
            line = self._lines[index].get(timeout=ANSWER_SECONDS)
        except queue.Empty:
            raise RuntimeError(f"Process {index} of {self._module} does not answer {do!r}.") from None
        if not line:
            raise RuntimeError(f"Process {index} of {self._module} ended at {do!r}; its last output is above.")
        return json.loads(line)


def _read(process: subprocess.Popen[str], lines: queue.Queue[str]) -> None:
    """Put the lines of the process into the queue, and an empty line at its end."""
    assert process.stdout is not None
    for line in process.stdout:
        lines.put(line)
    lines.put("")


def _ticks(pid: int) -> tuple[int, int]:
    """Return the kernel's count of a process's time in user and kernel mode, over all threads."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return int(fields[11]), int(fields[12])
