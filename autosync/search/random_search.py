"""Random search, the yardstick of the other searchers: it proposes the seeds, then samples of the space."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any, final

from autosync.search.ledger import Ledger, fresh_strategy
from autosync.search.protocol import Proposal
from autosync.space import SearchSpace
from autosync.spec import RuntimeRecord, Strategy

__all__ = ["RandomSearch"]


@final
class RandomSearch:
    """The i-th proposal depends on the seed, on i and on what was proposed before, never on measured times."""

    name = "random"

    def __init__(self, space: SearchSpace, seeds: Sequence[tuple[str, Strategy]], seed: int) -> None:
        self._seed = seed
        self._ledger = Ledger(space, seeds)

    def ask(self, count: int) -> list[Proposal]:
        proposals: list[Proposal] = []
        while len(proposals) < count and (proposal := self._ledger.claimed_seed() or self._drawn()):
            proposals.append(proposal)
        return proposals

    def tell(self, record: RuntimeRecord) -> None:
        self._ledger.tell(record)

    def pending(self) -> list[Proposal]:
        return self._ledger.pending()

    def state(self) -> dict[str, Any]:
        return self._ledger.state(self.name, self._seed)

    def restore(self, state: Mapping[str, Any]) -> None:
        self._ledger = Ledger.restored(self._ledger, state, self.name, self._seed)

    def _drawn(self) -> Proposal | None:
        rng = random.Random(f"{self._seed}/{self.name}/{self._ledger.drawn}")
        strategy = fresh_strategy(self._ledger, lambda: self._ledger.space.sample(rng), rng)
        if strategy is None:
            return None
        self._ledger.drawn += 1
        return self._ledger.claim(Proposal(strategy, "random"))
