"""Regularized evolution: tournament selection, mutation and crossover over the latest strategies; the oldest die.

Real, Aggarwal, Huang, Le: "Regularized Evolution for Image Classifier Architecture Search", AAAI 2019, algorithm 1;
this version adds crossover, and its population begins with the baselines instead of random strategies.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from autosync.search.ledger import Observation
from autosync.search.protocol import Proposal
from autosync.search.searcher import LedgerSearch, SearcherArguments
from autosync.space import SearchSpace
from autosync.spec import Strategy


@final
@dataclass(frozen=True)
class EvolutionOptions:
    """The best of `tournament` strategies, drawn from the `population` latest, becomes a parent.

    A child depends on the answers to all earlier proposals except the last `lag`, so up to `lag` + 1 trials can run at
    once.
    """

    population: int = 30
    tournament: int = 6
    crossover_share: float = 0.3
    lag: int = 3


@final
class EvolutionSearch(LedgerSearch):
    """Failed strategies are not in the population; stopped strategies count with their partial median.

    The i-th proposal depends on the seed, on i, and on the answers to all earlier proposals except the last few.
    """

    name = "evolution"

    def __init__(
        self,
        space: SearchSpace,
        baselines: Sequence[tuple[str, Strategy]],
        seed: int,
        options: EvolutionOptions = EvolutionOptions(),
    ) -> None:
        super().__init__(space, baselines, seed)
        self._options = options

    @classmethod
    def of(cls, arguments: SearcherArguments) -> EvolutionSearch:
        options = EvolutionOptions() if arguments.lag is None else EvolutionOptions(lag=arguments.lag)
        return cls(arguments.space, arguments.baselines, arguments.seed, options)

    def _next(self) -> Proposal | None:
        horizon = self._ledger.horizon(self._options.lag)
        if horizon is None:
            return None
        rng = random.Random(f"{self._seed}/{self.name}/{self._ledger.drawn}")
        population = self._ledger.observations(horizon)[-self._options.population :]
        label = "random"
        if population:
            crossed = len(population) > 1 and rng.random() < self._options.crossover_share
            label = "crossover" if crossed else "mutation"
        space = self._ledger.space

        def draw() -> Strategy:
            if not population:
                return space.sample(rng)
            parent = self._winner(population, rng)
            if label == "crossover":
                return space.crossover(parent, self._winner(population, rng), rng)
            return space.mutate(parent, rng)

        strategy = self._ledger.fresh(draw, rng)
        if strategy is None:
            # The neighbourhood is exhausted, but the space may have more strategies.
            strategy, label = self._ledger.sample_new(rng), "random"
        return self._ledger.claim_drawn(strategy, label)

    def _winner(self, population: Sequence[Observation], rng: random.Random) -> Strategy:
        drawn = rng.sample(population, min(self._options.tournament, len(population)))
        return min(drawn, key=lambda observation: observation.median_seconds).strategy
