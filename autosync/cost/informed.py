"""Learning from other runs beside one's own: how much their records count, and a simulator that does it.

Notation: a record's error, in log seconds, is its own, of variance e^2, and one for each thing that is not the same as
in the search: r^2 for another run, on a machine in another mood, m^2 for another model, c^2 for another cluster. With
so much more variance it counts e^2 / (e^2 + r^2 + ...) of a record of the search itself, as in any weighted fit. One
of another model on another cluster may be of another machine in all respects, and counts nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import numpy as np
import numpy.typing as npt

from autosync.cost.protocol import Simulator, with_spread
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, Strategy

__all__ = ["Informed", "weight_of"]

FloatArray = npt.NDArray[np.float64]

ERROR, RUN_ERROR, MODEL_ERROR, CLUSTER_ERROR = 0.05, 0.05, 0.1, 0.1


def weight_of(same_model: bool, same_cluster: bool) -> float:
    """The weight of a record of another run: 1/2 if model and cluster are the same, 1/6 if one is, else 0."""
    if not (same_model or same_cluster):
        return 0.0
    variance = ERROR**2 + RUN_ERROR**2
    variance += 0.0 if same_model else MODEL_ERROR**2
    variance += 0.0 if same_cluster else CLUSTER_ERROR**2
    return ERROR**2 / variance


@final
class Informed:
    """`simulator`, which learns from `earlier` records of other runs, too: each as far as it was timed alike.

    The order in which the records of the search come in makes no difference.
    """

    def __init__(
        self, simulator: Simulator, earlier: Sequence[RuntimeRecord], model: ModelSpec, cluster: ClusterSpec
    ) -> None:
        """A search for `model` on `cluster` is what the earlier records are compared with."""
        self.simulator = simulator
        self._earlier = tuple(earlier)
        self._weights = [
            weight_of(each.model.digest == model.digest, each.cluster.digest == cluster.digest) for each in earlier
        ]

    def predict(self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]) -> FloatArray:
        """Log step seconds (n,), as `simulator` has them."""
        return self.simulator.predict(model, cluster, strategies)

    def predict_with_spread(
        self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]
    ) -> tuple[FloatArray, FloatArray | None]:
        """Predict as `predict` does, with how sure `simulator` is, if it says so."""
        return with_spread(self.simulator, model, cluster, strategies)

    def fit(self, records: Sequence[RuntimeRecord], weights: Sequence[float] | None = None) -> None:
        """Learn from `records` of the search, and from the earlier ones."""
        order = sorted(range(len(records)), key=lambda place: _order(records[place]))
        own = [records[place] for place in order]
        if not self._earlier and weights is None:
            self.simulator.fit(own)
            return
        heavy = [1.0] * len(own) if weights is None else [weights[place] for place in order]
        # The search's own come first: where a model was profiled several times, the first profile stands for all.
        self.simulator.fit([*own, *self._earlier], [*heavy, *self._weights])


def _order(record: RuntimeRecord) -> tuple[object, ...]:
    return record.strategy.digest, record.outcome, record.step_seconds, record.started_at
