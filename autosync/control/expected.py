"""Waits for the replica count that is best for the expected order statistics of the recent arrival times."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from statistics import NormalDist
from typing import Any, final

import numpy as np

from autosync.control.window import ArrivalWindow, best_count
from autosync.numeric import FloatArray
from autosync.spec import Decision, StepReport


def elfving(times: FloatArray, count: int) -> FloatArray:
    """The approximate expected order statistics of `count` times, float64 (count,), if `times` are from one normal
    distribution (Elfving 1947).
    """
    shares = [(rank - math.pi / 8) / (count - math.pi / 4 + 1) for rank in range(1, count + 1)]
    return np.asarray(times.mean() + times.std() * np.array([NormalDist().inv_cdf(share) for share in shares]))


def empirical(times: FloatArray, count: int) -> FloatArray:
    """The expected order statistics by the quantiles of `times`, for any distribution."""
    return np.asarray(np.quantile(times, np.arange(1, count + 1) / count))


@final
class ExpectedTimeController:
    """Waits for the best count by the `ordered` function of the window's times; for all replicas while it is empty."""

    def __init__(self, ordered: Callable[[FloatArray, int], FloatArray], replicas: int, truncated: bool) -> None:
        self._ordered = ordered
        self._replicas = replicas
        self._window = ArrivalWindow(replicas, truncated)

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
