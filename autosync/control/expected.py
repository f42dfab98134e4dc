"""Waiting for as many as is best for the order statistics that the times of the last steps lead one to expect."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from statistics import NormalDist
from typing import Any, final

import numpy as np

from autosync.control.window import Array, Window, best_count
from autosync.spec import Decision, StepReport


def elfving(times: Array, count: int) -> Array:
    """About what the first, second, ... of `count` times are, float64 (count,), if all `times` are of one normal
    distribution (Elfving 1947).
    """
    shares = [(rank - math.pi / 8) / (count - math.pi / 4 + 1) for rank in range(1, count + 1)]
    return np.asarray(times.mean() + times.std() * np.array([NormalDist().inv_cdf(each) for each in shares]))


def empirical(times: Array, count: int) -> Array:
    """The same, by the quantiles of `times`, whatever their distribution."""
    return np.asarray(np.quantile(times, np.arange(1, count + 1) / count))


@final
class Expected:
    """Counts by the `ordered` times expected of all in the window together; for all until there are some."""

    def __init__(self, ordered: Callable[[Array, int], Array], replicas: int, truncated: bool) -> None:
        self._ordered = ordered
        self._replicas = replicas
        self._window = Window(replicas, truncated)

    def decide(self) -> Decision:
        times = self._window.rows
        return Decision(first=best_count(self._ordered(times, self._replicas)) if times.size else self._replicas)

    def observe(self, report: StepReport) -> bool:
        self._window.note(report)
        return False

    def state(self) -> dict[str, Any]:
        return self._window.state()

    def restore(self, state: Mapping[str, Any]) -> None:
        self._window.restore(state)
