"""The last times of all replicas, of which some were not seen: they are known to be over what the step waited."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, final

import numpy as np
import numpy.typing as npt

from autosync.errors import SpecError
from autosync.spec import StepReport
from autosync.spec.codec import every, known_fields, required

Array = npt.NDArray[np.float64]

ROWS = 10
"""Steps that are remembered."""

FURTHER = 1.5
"""What a time not seen is taken for, in waits, where none that was seen is over the wait."""


@final
class Window:
    """The times of the last `ROWS` steps. What was not seen is drawn from what was, by the number of the step."""

    def __init__(self, replicas: int, truncated: bool) -> None:
        """With `truncated` a time not seen is one of those over the wait, and else any one."""
        self._replicas = replicas
        self._truncated = truncated
        self._steps = 0
        self._rows: list[list[float]] = []

    @property
    def rows(self) -> Array:
        """The times, float64 (steps, replicas)."""
        return np.array(self._rows).reshape(-1, self._replicas)

    def note(self, report: StepReport) -> None:
        """Note the arrivals of a step."""
        seen = [each for each in report.arrivals if each is not None]
        if not seen:
            return
        wait = max(seen)
        known = np.array([*(time for row in self._rows for time in row), *seen])
        pool = known[known > wait] if self._truncated else known
        draw = np.random.default_rng(self._steps)
        row = []
        for each in report.arrivals:
            if each is not None:
                row.append(each)
            else:
                row.append(float(draw.choice(pool)) if len(pool) else FURTHER * wait)
        self._steps += 1
        self._rows = [*self._rows, row][-ROWS:]

    def state(self) -> dict[str, Any]:
        return {"steps": self._steps, "rows": self._rows}

    def restore(self, state: Mapping[str, Any]) -> None:
        what = "The state of a window"
        known_fields(state, ("steps", "rows"), what)
        steps, rows = required(state, "steps", int, what), every(state, "rows", list, what)
        if steps < 0 or len(rows) > ROWS or not all(self._is_row(each) for each in rows):
            raise SpecError(f"{what} has up to {ROWS} rows of {self._replicas} finite times.")
        self._steps, self._rows = steps, [[float(time) for time in row] for row in rows]

    def _is_row(self, row: list[Any]) -> bool:
        times = [each for each in row if isinstance(each, int | float) and not isinstance(each, bool)]
        return len(row) == len(times) == self._replicas and all(map(math.isfinite, times))


def best_count(times: Array) -> int:
    """The count c for which c over `times[c - 1]`, (replicas,), is largest, among those whose time is positive."""
    counts = np.arange(1, len(times) + 1)
    return int(np.argmax(np.where(times > 0, counts / np.where(times > 0, times, 1.0), -1.0))) + 1
