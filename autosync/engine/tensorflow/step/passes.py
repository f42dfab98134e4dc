"""The forward and backward passes of a step: real, recorded or paced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, final

import tensorflow as tf

from autosync.engine.core.pacing import Pacing
from autosync.engine.tensorflow.step.pace import Duration, release_results
from autosync.engine.tensorflow.step.recording import RECORDED_STEPS, Recording, Turn
from autosync.engine.tensorflow.step.replica import Lookups, Replica, Results


class Passes(Protocol):
    """The passes of all replicas in one step, while the step is traced."""

    def look_up(self, replica: Replica) -> Lookups:
        """Return the rows of sparse variables that a replica's batch touches."""
        ...

    def run(self, replica: Replica, values: Sequence[tf.Tensor], lookups: Lookups, /) -> Results:
        """Return the replica's loss and gradients at `values`; a sparse variable's value is its rows `lookups.ids`."""
        ...


@final
class RealPasses:
    """Passes that compute over one batch a replica; `weights` are the weights of the replicas (None: equal)."""

    def __init__(self, batches: Sequence[Sequence[tf.Tensor]], weights: Any) -> None:
        self._batches = batches
        self._weights = weights

    def look_up(self, replica: Replica) -> Lookups:
        return replica.look_up(self._batches[replica.number])

    def run(self, replica: Replica, values: Sequence[tf.Tensor], lookups: Lookups) -> Results:
        weight = None if self._weights is None else self._weights[replica.number]
        return replica.run(values, self._batches[replica.number], lookups, weight)


@final
class RecordedPasses:
    """Passes that replay recordings, one a replica."""

    def __init__(self, recordings: Sequence[Recording]) -> None:
        self._recordings = recordings
        self._turns: dict[int, Turn] = {}

    def look_up(self, replica: Replica) -> Lookups:
        with tf.device(replica.device):
            self._turns[replica.number] = Turn.of(replica.steps.read_value() % RECORDED_STEPS)
            replica.steps.assign_add(1)
        return self._recordings[replica.number].lookups(self._turns[replica.number])

    def run(self, replica: Replica, _values: Sequence[Any], _lookups: Lookups) -> Results:
        return self._recordings[replica.number].results(self._turns[replica.number])


@final
class PacedPasses:
    """Paced passes, whose gradients are released at their times. `reports` are those of `release_results`."""

    def __init__(self, passes: Passes, pacing: Pacing, durations: Callable[[int], Duration]) -> None:
        self._passes = passes
        self._pacing = pacing
        self._durations = durations
        self.reports: list[Any] = []

    def look_up(self, replica: Replica) -> Lookups:
        return self._passes.look_up(replica)

    def run(self, replica: Replica, values: Sequence[tf.Tensor], lookups: Lookups) -> Results:
        computed = self._passes.run(replica, values, lookups)
        duration, waits = self._durations(replica.number), self._pacing.waits[replica.number]
        results, report = release_results(replica.device, waits, self._pacing.releases, values, duration, computed)
        self.reports.append(report)
        return results


def mean_loss(losses: Sequence[tf.Tensor], device: str) -> tf.Tensor:
    """Return the mean of the replicas' losses, on `device`."""
    with tf.device(device):
        return tf.add_n(losses) * (1.0 / len(losses))
