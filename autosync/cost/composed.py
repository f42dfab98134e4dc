"""Simulators made of others: one that also learns from other runs, and one that drafts and then verifies.

Notation: a record's error, in log seconds, is its own, of variance e^2, and one for each thing that is not the same as
in the search: r^2 for another run, on a machine in another mood, m^2 for another model, c^2 for another cluster. With
so much more variance it counts e^2 / (e^2 + r^2 + ...) of a record of the search itself, as in any weighted fit. One
of another model on another cluster may be of another machine in all respects, and counts nothing.
"""

from collections.abc import Sequence
from typing import final

import numpy as np
import numpy.typing as npt

from autosync.cost.protocol import Simulator, with_spread
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, Strategy

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
        """A search for `model` on `cluster` is what the earlier records are compared with; paced ones and real ones
        are not.
        """
        self.simulator = simulator
        self._earlier = tuple(each for each in earlier if each.compares_on(cluster))
        self._weights = [
            weight_of(each.model.digest == model.digest, each.cluster.digest == cluster.digest)
            for each in self._earlier
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


VERIFIED = 64
EQUAL = 1e-9
"""The most, in log seconds, by which two drafts may differ and be of the same strategy."""


@final
class Drafted:
    """Predicts as `best` does for the `verified` strategies of a batch that `draft` finds fastest, and for all those
    that it was fitted on; a batch of at most `verified` is predicted by `best` alone.

    Every other strategy is predicted no faster than any of the former, the others in the order and at the distances of
    their drafts. So the fastest of a batch are ranked by `best`, as far as `draft` lets them through; the seconds of
    the others are not to be relied on.
    """

    def __init__(self, draft: Simulator, best: Simulator, verified: int = VERIFIED) -> None:
        self.draft = draft
        self.best = best
        self.verified = verified
        self._learned: list[RuntimeRecord] = []
        self._family: object = None
        self._drafts, self._digests = np.zeros(0), frozenset[str]()

    def predict(self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]) -> FloatArray:
        """Log step seconds (n,). Raises `SpecError` when a strategy does not fit the model and the cluster."""
        return self.predict_with_spread(model, cluster, strategies)[0]

    def predict_with_spread(
        self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]
    ) -> tuple[FloatArray, FloatArray | None]:
        """Predict as `predict` does, with the deviations that `best` gives, if any; of drafts, the largest of these."""
        if len(strategies) <= self.verified:
            return with_spread(self.best, model, cluster, strategies)
        drafts = self.draft.predict(model, cluster, strategies)
        order = np.argsort(drafts, kind="stable")
        promising = np.zeros(len(drafts), dtype=np.bool_)
        promising[order[: self.verified]] = True
        promising[self._learned_from(model, cluster, strategies, drafts)] = True
        chosen = np.flatnonzero(promising)
        found, deviations = with_spread(self.best, model, cluster, [strategies[place] for place in chosen.tolist()])
        slowest = found[np.isin(chosen, order[: self.verified])].max()
        predicted = slowest + (drafts - drafts[order[self.verified - 1]])
        predicted[chosen] = found
        if deviations is None:
            return predicted, None
        spread = np.full(len(strategies), deviations.max())
        spread[chosen] = deviations
        return predicted, spread

    def fit(self, records: Sequence[RuntimeRecord], weights: Sequence[float] | None = None) -> None:
        for each in (self.draft, self.best):
            if weights is None:
                each.fit(records)
            else:
                each.fit(records, weights)
        self._learned = [record for record in records if record.timed]
        self._family = None

    def _learned_from(
        self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy], drafts: FloatArray
    ) -> list[int]:
        """Places of strategies learned from. A digest takes long: only those with the draft of such a one are asked."""
        self._work_out_learned(model, cluster)
        known = self._drafts
        if not len(known):
            return []
        places = np.searchsorted(known, drafts)
        after, before = known[np.minimum(places, len(known) - 1)], known[np.maximum(places - 1, 0)]
        alike = np.flatnonzero(np.minimum(np.abs(after - drafts), np.abs(drafts - before)) <= EQUAL)
        return [place for place in alike.tolist() if strategies[place].digest in self._digests]

    def _work_out_learned(self, model: ModelSpec, cluster: ClusterSpec) -> None:
        """Sorted drafts, and digests, of the strategies learned from of this model and cluster; kept for the last."""
        family = (model.digest, cluster.digest)
        if self._family != family:
            records = [each for each in self._learned if (each.model.digest, each.cluster.digest) == family]
            same = [each.strategy for each in records]
            self._drafts = np.sort(self.draft.predict(model, cluster, same))
            self._digests = frozenset(each.digest for each in same)
            self._family = family
