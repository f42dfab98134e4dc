"""A crew: processes of one program in the hosts of an emulated cluster, asked all at once and answering in JSON."""

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

__all__ = ["ANSWER_SECONDS", "Crew"]

ANSWER_SECONDS = 300.0

QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1", "KERAS_BACKEND": "tensorflow"}


@final
class Crew:
    """One process in each of `hosts`, running `python -m MODULE ARGUMENTS`. A context; its end kills them."""

    def __init__(
        self,
        hosts: Sequence[Host],
        module: str,
        arguments: Sequence[str] = (),
        environments: Sequence[Mapping[str, str]] = (),
    ) -> None:
        """`environments` are set on top of this process's own, one a host, or none."""
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

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, do: str, **fields: Any) -> list[Any]:
        """Every process's answer to one question, in the order of the hosts."""
        return self.ask_each(do, [fields] * len(self._processes))

    def ask_each(self, do: str, fields: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Answers as of `ask`, to fields of each process's own. Raises `RuntimeError` when one has ended or hangs."""
        for process, own in zip(self._processes, fields, strict=True):
            assert process.stdin is not None
            process.stdin.write(json.dumps({"do": do, **own}) + "\n")
            process.stdin.flush()
        return [self._answer(index, do) for index in range(len(self._processes))]

    def cpu_seconds(self) -> float:
        """Processor seconds that the processes have used so far, in user and kernel mode."""
        return sum(self.each_cpu_seconds())

    def each_cpu_seconds(self) -> list[float]:
        """Those of each process, in the order of the hosts."""
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
            raise RuntimeError(f"Process {index} of {self._module} ended at {do!r}; its last words are above.")
        return json.loads(line)


def _read(process: subprocess.Popen[str], lines: queue.Queue[str]) -> None:
    """Hand on what the process answers, and an empty line when it has ended."""
    assert process.stdout is not None
    for line in process.stdout:
        lines.put(line)
    lines.put("")


def _ticks(pid: int) -> tuple[int, int]:
    """The kernel's count of a process's time in user and kernel mode, all its threads together."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return int(fields[11]), int(fields[12])
