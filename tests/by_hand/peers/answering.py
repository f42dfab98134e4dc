"""The side of a crew's process that answers: one line of JSON for each line of JSON it is given."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

__all__ = ["answer", "own_bytes", "timed_steps"]

Question = dict[str, Any]


def answer(answers: Mapping[str, Callable[[Question], Any]]) -> None:
    """Answer questions from standard input, each by the function its field `do` names, until the input ends.

    What libraries print goes to standard error. An answer that raises ends the process, and the crew says so.
    """
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    for line in sys.stdin:
        question = json.loads(line)
        replies.write(json.dumps(answers[question["do"]](question)) + "\n")
        replies.flush()


def timed_steps(step: Callable[[], float], question: Question) -> dict[str, Any]:
    """Seconds of each of `steps` calls after `warmup` that do not count, and the last loss.

    Before each there is a pause of `pause` seconds, if it is given, in which processors do whatever else there is.
    """
    loss = 0.0
    for _ in range(question["warmup"]):
        loss = step()
    seconds = []
    for _ in range(question["steps"]):
        time.sleep(question.get("pause", 0.0))
        begin = time.perf_counter()
        loss = step()
        seconds.append(time.perf_counter() - begin)
    return {"step_seconds": seconds, "loss": loss}


def own_bytes() -> int:
    """Memory that this process has written to; libraries' pages do not count."""
    for line in Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines():
        if line.startswith("Anonymous:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("The kernel does not count anonymous memory.")
