"""Random search, the yardstick of the other searchers: it proposes the baselines, then samples of the space."""

from __future__ import annotations

import random
from typing import final

from autosync.search.protocol import Proposal
from autosync.search.searcher import Asked, LedgerSearch


@final
class RandomSearch(LedgerSearch):
    """The i-th proposal depends on the seed, on i and on what was proposed before, never on measured times."""

    name = "random"

    @classmethod
    def of(cls, asked: Asked) -> RandomSearch:
        return cls(asked.space, asked.baselines, asked.seed)

    def _next(self) -> Proposal | None:
        rng = random.Random(f"{self._seed}/{self.name}/{self._ledger.drawn}")
        return self._ledger.claim_drawn(self._ledger.sampled(rng), "random")
