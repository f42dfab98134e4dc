"""Results on disk: a line of JSON each, written before the next job begins, so that none is computed twice."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import final

from autosync.errors import SpecError
from autosync.simulator.evaluation.cells import EvaluationError
from autosync.simulator.evaluation.jobs import Result
from autosync.spec import parse_json

__all__ = ["Journal"]


@final
class Journal:
    """The results in `path`, by their key. A last line that a crash has cut off is dropped, and written again."""

    def __init__(self, path: Path) -> None:
        """Read the results. Raises `EvaluationError` when `path` is unreadable, unwritable or holds anything else."""
        self.path = path
        self.results: dict[str, Result] = {}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            content = path.read_bytes() if path.exists() else b""
            whole = content[: content.rfind(b"\n") + 1]
            if whole != content:
                os.truncate(path, len(whole))
        except OSError as error:
            raise EvaluationError(f"{path} must be a file that can be written, but: {error.strerror}.") from None
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                result = Result.from_json(parse_json(line, "A result"))
            except SpecError as error:
                raise EvaluationError(
                    f"{path} holds a result a line, but line {number} is none ({error}); move the file away."
                ) from None
            self.results[result.key] = result

    def append(self, result: Result) -> None:
        """Write `result`; it is on disk when this returns."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(result.to_json()) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self.results[result.key] = result
