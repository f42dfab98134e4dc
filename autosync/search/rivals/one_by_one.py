"""A searcher that asks a chooser for one strategy at a time, with everything known by then."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, final

from autosync.search.ledger import Ledger, Observation
from autosync.search.protocol import Proposal
from autosync.search.searcher import LedgerSearch, SearcherArguments
from autosync.space import SearchSpace
from autosync.spec import Strategy

STARTUP = 10
"""Timed strategies before the first question to a model, as in Optuna; until then strategies are sampled."""

LAG = 3
"""Latest proposals whose answers are not waited for. One more trial than that can run at once."""

TRIES = 4
"""Known strategies in a row after which a strategy is sampled instead."""


@final
@dataclass(frozen=True)
class Known:
    """The inputs of a choice."""

    ledger: Ledger
    observations: Sequence[Observation]
    """The timed strategies among the first proposals."""
    under_way: Sequence[Strategy]
    """The strategies of the latest proposals, whose answers do not count yet."""


class Chooser(Protocol):
    """A general tuner. A choice depends only on `known` and `rng`, not on earlier calls."""

    name: str

    def choose(self, known: Known, rng: random.Random) -> Strategy | None:
        """Return a strategy of the space to time, which may be known already; None if the chooser cannot choose yet."""
        ...


@final
class OneByOneSearch(LedgerSearch):
    """The i-th proposal depends on the seed, on i, and on the answers to all earlier proposals but the last `lag`."""

    def __init__(
        self, space: SearchSpace, baselines: Sequence[tuple[str, Strategy]], seed: int, chooser: Chooser, lag: int = LAG
    ) -> None:
        super().__init__(space, baselines, seed)
        self._chooser = chooser
        self._lag = lag

    @property
    def name(self) -> str:  # type: ignore[override]  # several searchers share this class
        return self._chooser.name

    def _next(self) -> Proposal | None:
        horizon = self._ledger.horizon(self._lag)
        if horizon is None:
            return None
        known = Known(self._ledger, self._ledger.observations(horizon), self._ledger.strategies_after(horizon))
        rng = random.Random(f"{self._seed}/{self._chooser.name}/{self._ledger.drawn}")
        strategy, label = self._suggestion(known, rng), self._chooser.name
        if strategy is None:
            strategy, label = self._ledger.sample_new(rng), "random"
        return self._ledger.claim_drawn(strategy, label)

    def _suggestion(self, known: Known, rng: random.Random) -> Strategy | None:
        """Return the chooser's strategy, if it is new."""
        if len(known.observations) < STARTUP or self._ledger.left() == []:
            return None
        for _ in range(TRIES):
            strategy = self._chooser.choose(known, rng)
            if strategy is None or self._ledger.is_new(strategy):
                return strategy
        return None


def one_by_one(arguments: SearcherArguments, chooser: Chooser) -> OneByOneSearch:
    """Return the search that asks `chooser`."""
    return OneByOneSearch(
        arguments.space, arguments.baselines, arguments.seed, chooser, LAG if arguments.lag is None else arguments.lag
    )
