"""Guided search: breed hundreds a round on a simulator, time the few that promise most, learn from what came back."""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np
import numpy.typing as npt

from autosync.cost import Restorable, Simulator
from autosync.search.acquisition import Pool, Residuals, best_batch
from autosync.search.breeding import BreedingOptions, breed
from autosync.search.decisions import DecisionCoder
from autosync.search.fresh import fresh_strategy
from autosync.search.ledger import Ledger
from autosync.search.protocol import Proposal
from autosync.space import SearchSpace
from autosync.spec import RuntimeRecord, Strategy
from autosync.spec.fields import required

__all__ = ["GuidedOptions", "GuidedSearch"]

Floats = npt.NDArray[np.float64]


@final
@dataclass(frozen=True)
class GuidedOptions:
    """A round breeds candidates from the `leaders` best timed strategies and picks `round_size` to time.

    Each pick is instead, with chance `explore_share`, a strategy sampled without regard to the simulator.
    """

    round_size: int = 4
    leaders: int = 10
    explore_share: float = 0.1
    breeding: BreedingOptions = field(default_factory=BreedingOptions)


@final
class GuidedSearch:
    """The simulator is refit on all records at the start of a round, so that a round's cost is shared by its picks.

    The searcher owns `simulator` and calls its `fit`. A `Restorable` simulator's state is part of the searcher's;
    another one is fit again by `restore`, on the records of its last fit, and must depend on those alone.
    """

    name = "guided"

    def __init__(
        self,
        space: SearchSpace,
        seeds: Sequence[tuple[str, Strategy]],
        seed: int,
        simulator: Simulator,
        options: GuidedOptions = GuidedOptions(),
    ) -> None:
        self._seed = seed
        self._simulator = simulator
        self._options = options
        self._coder = DecisionCoder(space.model)
        self._ledger = Ledger(space, seeds)
        self._queue: deque[Proposal] = deque()
        self._round = 0
        self._fitted = 0

    def ask(self, count: int) -> list[Proposal]:
        proposals: list[Proposal] = []
        while len(proposals) < count and (proposal := self._seed_proposal() or self._next()):
            proposals.append(proposal)
        return proposals

    def tell(self, record: RuntimeRecord) -> None:
        self._ledger.tell(record)

    def pending(self) -> list[Proposal]:
        return self._ledger.pending()

    def state(self) -> dict[str, Any]:
        own: dict[str, Any] = {
            "queue": [each.to_json() for each in self._queue],
            "round": self._round,
            "fitted": self._fitted,
        }
        if isinstance(self._simulator, Restorable):
            own["simulator"] = self._simulator.state()
        return self._ledger.state(self.name, self._seed, **own)

    def restore(self, state: Mapping[str, Any]) -> None:
        self._ledger = Ledger.restored(self._ledger, state, self.name, self._seed)
        self._queue = deque(Proposal.from_json(each) for each in required(state, "queue", list, "A searcher's state"))
        self._round = required(state, "round", int, "A searcher's state")
        self._fitted = required(state, "fitted", int, "A searcher's state")
        if isinstance(self._simulator, Restorable):
            self._simulator.restore(required(state, "simulator", dict, "A searcher's state"))
        elif self._fitted:
            self._simulator.fit(self._ledger.records[: self._fitted])

    def _seed_proposal(self) -> Proposal | None:
        proposal = self._ledger.next_seed()
        if proposal is None:
            return None
        seconds = math.exp(self._forecast([proposal.strategy])[0])
        return self._ledger.claim(replace(proposal, predicted_seconds=seconds))

    def _next(self) -> Proposal | None:
        """The next proposal of this round, or of a new one; None when the space is used up."""
        while True:
            while self._queue:
                proposal = self._queue.popleft()
                if self._ledger.is_new(proposal.strategy):
                    self._ledger.drawn += 1
                    return self._ledger.claim(proposal)
            self._queue.extend(self._picked())
            if not self._queue:
                return None

    def _picked(self) -> list[Proposal]:
        """A round's proposals, all of them new; none when the space is used up."""
        self._refit()
        residuals = self._residuals()
        rng = random.Random(f"{self._seed}/{self.name}/{self._round}")
        self._round += 1
        candidates, pool = self._candidates(residuals, rng)
        if not candidates:
            stray = fresh_strategy(self._ledger, lambda: self._ledger.space.sample(rng), rng)
            return [self._explored(stray)] if stray else []
        pending = self._pool([each.strategy for each in self._ledger.pending()])
        picks = best_batch(residuals, pool, pending, self._options.round_size)
        proposals = [Proposal(candidates[pick], self.name, math.exp(pool.forecast[pick])) for pick in picks]
        return [self._perhaps_explored(each, rng) for each in proposals]

    def _refit(self) -> None:
        records = self._ledger.records
        if len(records) > self._fitted and any(record.timed for record in records):
            self._simulator.fit(records)
            self._fitted = len(records)

    def _candidates(self, residuals: Residuals, rng: random.Random) -> tuple[list[Strategy], Pool]:
        """New strategies worth a look."""
        breeding = self._options.breeding
        left = self._ledger.left()
        if left is not None:
            some = rng.sample(left, min(len(left), breeding.most))
            return some, self._pool(some)
        timed = sorted(self._ledger.observations(), key=lambda each: each.median_seconds)
        leaders = [each.strategy for each in timed[: self._options.leaders]]
        pools: list[Pool] = []

        def promise(strategies: list[Strategy]) -> Floats:
            pools.append(self._pool(strategies))
            return residuals.promise(pools[-1])

        litter = breed(self._ledger.space, leaders, rng, promise, breeding)
        new = np.array([self._ledger.is_new(each) for each in litter], np.bool_)
        return [each for each, keep in zip(litter, new, strict=True) if keep], Pool.joined(pools).where(new)

    def _pool(self, strategies: list[Strategy]) -> Pool:
        return Pool(self._coder.decisions(strategies), self._forecast(strategies))

    def _residuals(self) -> Residuals:
        observations = self._ledger.observations()
        strategies = [each.strategy for each in observations]
        log_seconds = np.log(np.array([each.median_seconds for each in observations]))
        return Residuals(self._coder, self._pool(strategies), log_seconds)

    def _forecast(self, strategies: list[Strategy]) -> Floats:
        if not strategies:
            return np.zeros(0)
        return self._simulator.predict(self._ledger.space.model, self._ledger.space.cluster, strategies)

    def _perhaps_explored(self, proposal: Proposal, rng: random.Random) -> Proposal:
        """The proposal, or now and then a sampled strategy in its place."""
        if rng.random() >= self._options.explore_share:
            return proposal
        strategy = fresh_strategy(self._ledger, lambda: self._ledger.space.sample(rng), rng)
        return self._explored(strategy) if strategy else proposal

    def _explored(self, strategy: Strategy) -> Proposal:
        return Proposal(strategy, "explore", math.exp(self._forecast([strategy])[0]))
