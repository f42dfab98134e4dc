"""Composed simulators: one also learns from other runs, one drafts with a fast simulator and verifies with the best.

Notation: a record's error, in log seconds, has variance e^2, plus a term for every difference from the search: r^2 for
another run (on a machine in another state), m^2 for another model, c^2 for another cluster. A record with more variance
has the weight e^2 / (e^2 + r^2 + ...) relative to a record of the search itself, as in any weighted fit. A record of
another model on another cluster may come from an entirely different machine, and has weight 0.
"""

from collections.abc import Sequence
from typing import final

import numpy as np

from autosync.cost.protocol import Simulator, with_spread
from autosync.numeric import FloatArray
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, Strategy

ERROR, RUN_ERROR, MODEL_ERROR, CLUSTER_ERROR = 0.05, 0.05, 0.1, 0.1


def weight_of(same_model: bool, same_cluster: bool) -> float:
    """The weight of a record of another run: 1/2 for the same model and cluster, 1/6 if one of them differs, else 0."""
    if not (same_model or same_cluster):
        return 0.0
    variance = ERROR**2 + RUN_ERROR**2
    variance += 0.0 if same_model else MODEL_ERROR**2
    variance += 0.0 if same_cluster else CLUSTER_ERROR**2
    return ERROR**2 / variance


@final
class TransferSimulator:
    """`simulator` that also learns from `earlier` records of other runs, weighted by the similarity of conditions.

    The order in which the search's records arrive makes no difference.
    """

    def __init__(
        self, simulator: Simulator, earlier: Sequence[RuntimeRecord], model: ModelSpec, cluster: ClusterSpec
    ) -> None:
        """Weight the earlier records for a search for `model` on `cluster`. Paced and real records are not mixed."""
        self.simulator = simulator
        self._earlier = tuple(record for record in earlier if record.compares_on(cluster))
        self._weights = [
            weight_of(record.model.digest == model.digest, record.cluster.digest == cluster.digest)
            for record in self._earlier
        ]

    def predict(self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]) -> FloatArray:
        """Log step seconds (n,), by `simulator`."""
        return self.simulator.predict(model, cluster, strategies)

    def predict_with_spread(
        self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]
    ) -> tuple[FloatArray, FloatArray | None]:
        """The predictions of `predict`, with the standard deviations of `simulator`, if it reports them."""
        return with_spread(self.simulator, model, cluster, strategies)

    def fit(self, records: Sequence[RuntimeRecord], weights: Sequence[float] | None = None) -> None:
        """Learn from `records` of the search, and from the earlier records."""
        order = sorted(range(len(records)), key=lambda place: _order(records[place]))
        ordered = [records[place] for place in order]
        if not self._earlier and weights is None:
            self.simulator.fit(ordered)
            return
        heavy = [1.0] * len(ordered) if weights is None else [weights[place] for place in order]
        # The search's records come first: if a model was profiled several times, the first profile stands for all.
        self.simulator.fit([*ordered, *self._earlier], [*heavy, *self._weights])


def _order(record: RuntimeRecord) -> tuple[object, ...]:
    return record.strategy.digest, record.outcome, record.step_seconds, record.started_at


VERIFIED = 64
EQUAL = 1e-9
"""The maximum difference, in log seconds, between two drafts of the same strategy."""


@final
class CascadeSimulator:
    """A cascade of two simulators. `best` predicts the `verified` strategies of a batch that `draft` finds fastest, and
    all strategies of the fitted records; a batch of at most `verified` strategies is predicted by `best` alone.

    All remaining strategies are predicted no faster than the verified ones, in the order and at the distances of their
    drafts. So `best` ranks the fastest strategies of a batch, as far as `draft` selects them; the predicted seconds of
    the remaining strategies are not reliable.
    """

    def __init__(self, draft: Simulator, best: Simulator, verified: int = VERIFIED) -> None:
        self.draft = draft
        self.best = best
        self.verified = verified
        self._learned: list[RuntimeRecord] = []
        self._family: object = None
        self._drafts, self._digests = np.zeros(0), frozenset[str]()

    def predict(self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]) -> FloatArray:
        """Log step seconds (n,). Raises `SpecError` if a strategy does not fit the model and the cluster."""
        return self.predict_with_spread(model, cluster, strategies)[0]

    def predict_with_spread(
        self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]
    ) -> tuple[FloatArray, FloatArray | None]:
        """The predictions of `predict`, with the deviations of `best`, if any; drafts get the largest deviation."""
        if len(strategies) <= self.verified:
            return with_spread(self.best, model, cluster, strategies)
        drafts = self.draft.predict(model, cluster, strategies)
        order = np.argsort(drafts, kind="stable")
        promising = np.zeros(len(drafts), dtype=np.bool_)
        promising[order[: self.verified]] = True
        promising[self._places_of_known(model, cluster, strategies, drafts)] = True
        chosen = np.flatnonzero(promising)
        verified, deviations = with_spread(self.best, model, cluster, [strategies[place] for place in chosen.tolist()])
        slowest = verified[np.isin(chosen, order[: self.verified])].max()
        predicted = slowest + (drafts - drafts[order[self.verified - 1]])
        predicted[chosen] = verified
        if deviations is None:
            return predicted, None
        spread = np.full(len(strategies), deviations.max())
        spread[chosen] = deviations
        return predicted, spread

    def fit(self, records: Sequence[RuntimeRecord], weights: Sequence[float] | None = None) -> None:
        for simulator in (self.draft, self.best):
            if weights is None:
                simulator.fit(records)
            else:
                simulator.fit(records, weights)
        self._learned = [record for record in records if record.timed]
        self._family = None

    def _places_of_known(
        self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy], drafts: FloatArray
    ) -> list[int]:
        """The places of strategies that were fitted. Digests are slow, so only strategies with the draft of a fitted
        strategy are compared by digest."""
        self._draft_fitted(model, cluster)
        known = self._drafts
        if not len(known):
            return []
        places = np.searchsorted(known, drafts)
        after, before = known[np.minimum(places, len(known) - 1)], known[np.maximum(places - 1, 0)]
        alike = np.flatnonzero(np.minimum(np.abs(after - drafts), np.abs(drafts - before)) <= EQUAL)
        return [place for place in alike.tolist() if strategies[place].digest in self._digests]

    def _draft_fitted(self, model: ModelSpec, cluster: ClusterSpec) -> None:
        """Compute sorted drafts and digests of the fitted strategies of this model and cluster; cached for one pair."""
        family = (model.digest, cluster.digest)
        if self._family != family:
            records = [record for record in self._learned if (record.model.digest, record.cluster.digest) == family]
            fitted = [record.strategy for record in records]
            self._drafts = np.sort(self.draft.predict(model, cluster, fitted))
            self._digests = frozenset(strategy.digest for strategy in fitted)
            self._family = family
