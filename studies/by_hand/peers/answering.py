"""The answering side of a host process: writes one line of JSON for each line of JSON it reads."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

__all__ = ["answer", "time_steps", "written_bytes"]

Question = dict[str, Any]


def answer(answers: Mapping[str, Callable[[Question], Any]]) -> None:
    """Answer questions from standard input until it ends; the field `do` of a question names the function to call.

    Output of libraries goes to standard error. A function that raises ends the process, and the asking side reports it.
    """
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    for line in sys.stdin:
        question = json.loads(line)
        replies.write(json.dumps(answers[question["do"]](question)) + "\n")
        replies.flush()


def time_steps(step: Callable[[], float], question: Question) -> dict[str, Any]:
    """Return the seconds of each of `steps` calls after `warmup` untimed calls, and the last loss.

    If `pause` is given, the process sleeps that many seconds before each timed call.
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


def written_bytes() -> int:
    """Return the bytes of memory that this process has written to; libraries' pages do not count."""
    for line in Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines():
        if line.startswith("Anonymous:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("The kernel must count anonymous memory, but does not.")
