"""Two simulators as one: a cheap one drafts all predictions, and the best one verifies those that promise most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import numpy as np
import numpy.typing as npt

from autosync.cost.protocol import Simulator, with_spread
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, Strategy

__all__ = ["VERIFIED", "Drafted"]

FloatArray = npt.NDArray[np.float64]

VERIFIED = 64
EQUAL = 1e-9
"""Drafts, in log seconds, that are no further apart may be of the same strategy."""


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
        self._drafts: tuple[object, FloatArray] = (None, np.zeros(0))

    def predict(self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]) -> FloatArray:
        """Log step seconds (n,). Raises `SpecError` when a strategy does not fit the model and the cluster."""
        return self.predict_with_spread(model, cluster, strategies)[0]

    def predict_with_spread(
        self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]
    ) -> tuple[FloatArray, FloatArray | None]:
        """As `predict`, and the deviations that `best` says, if it does; of drafts, the largest of these."""
        if len(strategies) <= self.verified:
            return with_spread(self.best, model, cluster, strategies)
        drafts = self.draft.predict(model, cluster, strategies)
        order = np.argsort(drafts, kind="stable")
        promising = np.zeros(len(drafts), dtype=np.bool_)
        promising[order[: self.verified]] = True
        chosen = np.flatnonzero(promising | self._may_be_learned(model, cluster, drafts))
        found, deviations = with_spread(self.best, model, cluster, [strategies[place] for place in chosen.tolist()])
        slowest = found[promising[chosen]].max()
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
        self._drafts = (None, np.zeros(0))

    def _may_be_learned(self, model: ModelSpec, cluster: ClusterSpec, drafts: FloatArray) -> npt.NDArray[np.bool_]:
        """Which have the draft of a strategy that was learned from: those strategies, and hardly another; (n,)."""
        known = self._known_drafts(model, cluster)
        if not len(known):
            return np.zeros(len(drafts), dtype=np.bool_)
        places = np.searchsorted(known, drafts)
        after, before = known[np.minimum(places, len(known) - 1)], known[np.maximum(places - 1, 0)]
        return np.asarray(np.minimum(np.abs(after - drafts), np.abs(drafts - before)) <= EQUAL)

    def _known_drafts(self, model: ModelSpec, cluster: ClusterSpec) -> FloatArray:
        """Drafts of the strategies learned from of this model and cluster, sorted; kept for those asked for last."""
        family = (model.digest, cluster.digest)
        if self._drafts[0] != family:
            same = [each for each in self._learned if (each.model.digest, each.cluster.digest) == family]
            known = self.draft.predict(model, cluster, [each.strategy for each in same])
            self._drafts = (family, np.sort(known))
        return self._drafts[1]
