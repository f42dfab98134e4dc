"""The recent arrival times of all replicas. Unseen times, which exceed their step's wait, are imputed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, final

import numpy as np

from autosync.errors import SpecError
from autosync.numeric import FloatArray
from autosync.spec import StepReport
from autosync.spec.codec import check_fields, read_list, read_required

ROWS = 10
"""The number of remembered steps."""

FURTHER = 1.5
"""The imputed time, in multiples of the wait, if no seen time exceeds the wait."""


@final
class ArrivalWindow:
    """The times of the last `ROWS` steps. Unseen times are drawn from seen ones, with the step's number as the seed."""

    def __init__(self, replicas: int, truncated: bool) -> None:
        """With `truncated`, unseen times are drawn from the times that exceed the wait, otherwise from all times."""
        self._replicas = replicas
        self._truncated = truncated
        self._steps = 0
        self._rows: list[list[float]] = []

    @property
    def rows(self) -> FloatArray:
        """The times, float64 (steps, replicas)."""
        return np.array(self._rows).reshape(-1, self._replicas)

    def note(self, report: StepReport) -> None:
        """Add the arrivals of a step."""
        seen = [arrival for arrival in report.arrivals if arrival is not None]
        if not seen:
            return
        wait = max(seen)
        known = np.array([*(time for row in self._rows for time in row), *seen])
        pool = known[known > wait] if self._truncated else known
        draw = np.random.default_rng(self._steps)
        row = []
        for arrival in report.arrivals:
            if arrival is not None:
                row.append(arrival)
            else:
                row.append(float(draw.choice(pool)) if len(pool) else FURTHER * wait)
        self._steps += 1
        self._rows = [*self._rows, row][-ROWS:]

    def state(self) -> dict[str, Any]:
        return {"steps": self._steps, "rows": self._rows}

    def restore(self, state: Mapping[str, Any]) -> None:
        what = "The state of a window"
        check_fields(state, ("steps", "rows"), what)
        steps, rows = read_required(state, "steps", int, what), read_list(state, "rows", list, what)
        if steps < 0 or len(rows) > ROWS or not all(self._is_row(row) for row in rows):
            raise SpecError(f"{what} has at most {ROWS} rows of {self._replicas} finite times, and at least 0 steps.")
        self._steps, self._rows = steps, [[float(time) for time in row] for row in rows]

    def _is_row(self, row: list[Any]) -> bool:
        times = [time for time in row if isinstance(time, int | float) and not isinstance(time, bool)]
        return len(row) == len(times) == self._replicas and all(map(math.isfinite, times))


def best_count(times: FloatArray) -> int:
    """The count c with the largest c / `times[c - 1]`, (replicas,), among counts whose time is positive."""
    counts = np.arange(1, len(times) + 1)
    return int(np.argmax(np.where(times > 0, counts / np.where(times > 0, times, 1.0), -1.0))) + 1
