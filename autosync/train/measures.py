"""The measures of training: the loss, and metrics over the examples of a pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from autosync.train.running import Running

if TYPE_CHECKING:
    from autosync.engine.capture.metrics import TaskMetrics


@dataclass(frozen=True)
class Objective:
    """The loss and metrics that a model is compiled with, besides its optimizer: see `autosync.distribute`."""

    loss: Any = None
    metrics: Any = ()


@final
class Measures:
    """Metrics over the examples trained on since `begin`: what the replicas counted, added up here."""

    def __init__(self, metrics: TaskMetrics | None, running: Running) -> None:
        self._metrics = metrics
        self._running = running
        self._states = metrics.initial if metrics else ()

    def begin(self) -> None:
        """Forget what was counted before. Raises `TrainingError`."""
        if self._metrics:
            self._running.take_metrics()
            self._states = self._metrics.initial

    def so_far(self) -> dict[str, float]:
        """The metrics so far, by name; empty without metrics. Raises `TrainingError`."""
        if not self._metrics:
            return {}
        taken = self._running.take_metrics()
        self._states = tuple(old + new for old, new in zip(self._states, taken, strict=True))
        return self._metrics.results(self._states)
