"""Waits for the best replica count by a level of each replica's time, which a filter tracks from step to step."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, final

import numpy as np

from autosync.control.window import best_count
from autosync.errors import SpecError
from autosync.spec import Decision, StepReport
from autosync.spec.codec import check_fields, read_list

GAIN = 0.6
"""The share of the difference to a seen time by which a level moves in a step."""

DRIFT = 0.03
"""The share of the difference to the median of the seen replicas by which an unseen replica's level moves."""


@final
class Filter:
    """A positive filter: a replica's level is the logarithm of its time. An unseen level is at least the wait."""

    def __init__(self, replicas: int) -> None:
        self._replicas = replicas
        self._levels: tuple[float, ...] = ()

    def decide(self) -> Decision:
        if not self._levels:
            return Decision(first=self._replicas)
        return Decision(first=best_count(np.sort(np.exp(self._levels))))

    def observe(self, report: StepReport) -> bool:
        seen = [arrival for arrival in report.arrivals if arrival is not None]
        if not seen or min(seen) <= 0:
            return False
        wait = math.log(max(seen))
        before = self._levels or tuple(wait if time is None else math.log(time) for time in report.arrivals)
        pairs = list(zip(before, report.arrivals, strict=True))
        middle = float(np.median([level for level, time in pairs if time is not None]))
        self._levels = tuple(
            max(level + DRIFT * (middle - level), wait) if time is None else level + GAIN * (math.log(time) - level)
            for level, time in pairs
        )
        return False

    def state(self) -> dict[str, Any]:
        return {"levels": list(self._levels)}

    def restore(self, state: Mapping[str, Any]) -> None:
        what = "The state of a filter"
        check_fields(state, ("levels",), what)
        levels = read_list(state, "levels", float, what)
        if len(levels) not in (0, self._replicas) or not all(map(math.isfinite, levels)):
            raise SpecError(f"{what} has a finite level for each of {self._replicas} replicas, or no levels yet.")
        self._levels = levels
