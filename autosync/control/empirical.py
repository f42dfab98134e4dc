"""Waiting for as many as was best for the times of the last steps, whatever their distribution."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import numpy as np

from autosync.control.window import Window, best_count
from autosync.spec import Decision, StepReport


@final
class Empirical:
    """Counts by the quantiles of all times in the window together; for all until there are some."""

    def __init__(self, replicas: int, truncated: bool) -> None:
        self._replicas = replicas
        self._window = Window(replicas, truncated)

    def decide(self) -> Decision:
        times = self._window.rows
        if not times.size:
            return Decision(first=self._replicas)
        shares = np.arange(1, self._replicas + 1) / self._replicas
        return Decision(first=best_count(np.quantile(times, shares)))

    def observe(self, report: StepReport) -> bool:
        self._window.note(report)
        return False

    def state(self) -> dict[str, Any]:
        return self._window.state()

    def restore(self, state: Mapping[str, Any]) -> None:
        self._window.restore(state)
