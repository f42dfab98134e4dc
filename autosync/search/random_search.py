"""Random search, the reference for all other searchers: proposes the baselines, then random samples of the space."""

from __future__ import annotations

import random
from typing import final

from autosync.search.protocol import Proposal
from autosync.search.searcher import LedgerSearch, SearcherArguments


@final
class RandomSearch(LedgerSearch):
    """The i-th proposal depends on the seed, on i and on the earlier proposals, never on measured times."""

    name = "random"

    @classmethod
    def of(cls, arguments: SearcherArguments) -> RandomSearch:
        return cls(arguments.space, arguments.baselines, arguments.seed)

    def _next(self) -> Proposal | None:
        rng = random.Random(f"{self._seed}/{self.name}/{self._ledger.drawn}")
        return self._ledger.claim_drawn(self._ledger.sample_new(rng), "random")
