"""A searcher that asks a chooser for one strategy at a time, with all that is known by then."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, final

from autosync.search.ledger import Ledger, Observation
from autosync.search.protocol import Proposal
from autosync.search.searcher import Asked, LedgerSearch
from autosync.space import SearchSpace
from autosync.spec import Strategy

STARTUP = 10
"""Timed strategies before a model is asked, as in Optuna; until then strategies are sampled."""

LAG = 3
"""Latest proposals whose answers are not waited for, so that one trial more than that may be under way at once."""

TRIES = 4
"""Known strategies in a row after which one is sampled instead."""


@final
@dataclass(frozen=True)
class Known:
    """What a choice may depend on: the answers to the first proposals, and that the others `under_way` were made."""

    ledger: Ledger
    observations: Sequence[Observation]
    under_way: Sequence[Strategy]


class Chooser(Protocol):
    """A general tuner as it is here: it depends on what is known and on `rng`, and on nothing it has seen before."""

    name: str

    def choose(self, known: Known, rng: random.Random) -> Strategy | None:
        """A strategy of the space to time, which may be known already; None when it can tell nothing yet."""
        ...


@final
class OneByOneSearch(LedgerSearch):
    """The i-th proposal depends on the seed, on i, and on the answers to all proposals before it but the last `lag`."""

    def __init__(
        self, space: SearchSpace, baselines: Sequence[tuple[str, Strategy]], seed: int, chooser: Chooser, lag: int = LAG
    ) -> None:
        super().__init__(space, baselines, seed)
        self._chooser = chooser
        self._lag = lag

    @property
    def name(self) -> str:  # type: ignore[override]  # of one class there are several searchers
        return self._chooser.name

    def _next(self) -> Proposal | None:
        horizon = self._ledger.horizon(self._lag)
        if horizon is None:
            return None
        known = Known(self._ledger, self._ledger.observations(horizon), self._ledger.proposed(horizon))
        rng = random.Random(f"{self._seed}/{self._chooser.name}/{self._ledger.drawn}")
        strategy, label = self._suggestion(known, rng), self._chooser.name
        if strategy is None:
            strategy, label = self._ledger.sampled(rng), "random"
        return self._ledger.claim_drawn(strategy, label)

    def _suggestion(self, known: Known, rng: random.Random) -> Strategy | None:
        """The strategy that the chooser wants, if it is new."""
        if len(known.observations) < STARTUP or self._ledger.left() == []:
            return None
        for _ in range(TRIES):
            strategy = self._chooser.choose(known, rng)
            if strategy is None or self._ledger.is_new(strategy):
                return strategy
        return None


def one_by_one(asked: Asked, chooser: Chooser) -> OneByOneSearch:
    """The search that asks `chooser`."""
    return OneByOneSearch(asked.space, asked.baselines, asked.seed, chooser, LAG if asked.lag is None else asked.lag)
