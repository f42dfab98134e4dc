"""Waiting for as many as is best for times of one normal distribution, by Elfving's order statistics."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import NormalDist
from typing import Any, final

import numpy as np

from autosync.control.window import Array, Window, best_count
from autosync.spec import Decision, StepReport


def ordered(mean: float, deviation: float, count: int) -> Array:
    """About what the first, second, ... of `count` normal times are expected to be, float64 (count,) (Elfving 1947)."""
    shares = [(rank - math.pi / 8) / (count - math.pi / 4 + 1) for rank in range(1, count + 1)]
    return mean + deviation * np.array([NormalDist().inv_cdf(each) for each in shares])


@final
class Elfving:
    """Counts by the mean and the deviation of all times in the window; for all until there are some."""

    def __init__(self, replicas: int, truncated: bool) -> None:
        self._replicas = replicas
        self._window = Window(replicas, truncated)

    def decide(self) -> Decision:
        times = self._window.rows
        if not times.size:
            return Decision(first=self._replicas)
        return Decision(first=best_count(ordered(float(times.mean()), float(times.std()), self._replicas)))

    def observe(self, report: StepReport) -> bool:
        self._window.note(report)
        return False

    def state(self) -> dict[str, Any]:
        return self._window.state()

    def restore(self, state: Mapping[str, Any]) -> None:
        self._window.restore(state)
