"""Waiting for as many as is best for the level of each replica, which is followed from step to step."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, final

import numpy as np

from autosync.control.window import best_count
from autosync.errors import SpecError
from autosync.spec import Decision, StepReport
from autosync.spec.codec import every, known_fields

GAIN = 0.6
"""The share of the way that a level goes to what was seen."""

DRIFT = 0.03
"""The share of the way that the level of a replica not seen goes to the median of those seen."""


@final
class Filter:
    """A positive filter: each replica's level is the logarithm of its time. One not seen is at least at the wait."""

    def __init__(self, replicas: int) -> None:
        self._replicas = replicas
        self._levels: tuple[float, ...] = ()

    def decide(self) -> Decision:
        if not self._levels:
            return Decision(first=self._replicas)
        return Decision(first=best_count(np.sort(np.exp(self._levels))))

    def observe(self, report: StepReport) -> bool:
        seen = [each for each in report.arrivals if each is not None]
        if not seen or min(seen) <= 0:
            return False
        wait = math.log(max(seen))
        before = self._levels or tuple(wait if each is None else math.log(each) for each in report.arrivals)
        pairs = list(zip(before, report.arrivals, strict=True))
        middle = float(np.median([level for level, each in pairs if each is not None]))
        self._levels = tuple(
            max(level + DRIFT * (middle - level), wait) if each is None else level + GAIN * (math.log(each) - level)
            for level, each in pairs
        )
        return False

    def state(self) -> dict[str, Any]:
        return {"levels": list(self._levels)}

    def restore(self, state: Mapping[str, Any]) -> None:
        what = "The state of a filter"
        known_fields(state, ("levels",), what)
        levels = every(state, "levels", float, what)
        if len(levels) not in (0, self._replicas) or not all(map(math.isfinite, levels)):
            raise SpecError(f"{what} has a finite level for each of {self._replicas} replicas, or none yet.")
        self._levels = levels
