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
