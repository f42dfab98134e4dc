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

from autosync.cost import Simulator, with_spread
from autosync.search.acquisition import Pool, best_batch
from autosync.search.breeding import BreedingOptions, breed
from autosync.search.decisions import DecisionCoder
from autosync.search.evidence import Evidence
from autosync.search.fresh import fresh_strategy
from autosync.search.ledger import Ledger
from autosync.search.outlook import Outlook
from autosync.search.protocol import Proposal
from autosync.search.relief import Relief
from autosync.space import SearchSpace
from autosync.spec import RuntimeRecord, Strategy
from autosync.spec.fields import required

__all__ = ["GuidedOptions", "GuidedSearch"]

Floats = npt.NDArray[np.float64]


@final
@dataclass(frozen=True)
class GuidedOptions:
    """A round breeds candidates from the `leaders` best timed strategies and proposes `round_size` to time.

    Each pick is instead, with chance `explore_share`, a strategy sampled without regard to the simulator. Unless
    `diverse`, a round's picks are those of the largest expected improvement, however alike. Every `retime_every` rounds
    (0: never) the leader is timed again if it was timed once.
    """

    round_size: int = 4
    leaders: int = 10
    explore_share: float = 0.05
    diverse: bool = True
    retime_every: int = 4
    breeding: BreedingOptions = field(default_factory=BreedingOptions)


@final
class GuidedSearch:
    """Proposes the seeds, that of the least forecast first, then in rounds; a round begins when all before it is
    answered, and depends on that alone.

    The searcher owns `simulator` and fits it to all records at the start of a round, before which nothing else is asked
    of it; so it must depend on the records of its last fit alone, and no state of it is kept. One with a
    `predict_with_spread` also says how sure it is.
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
        self._relief = Relief(space, simulator)
        self._queue: deque[Proposal] = deque()
        self._outlook = Outlook()

    def ask(self, count: int) -> list[Proposal]:
        proposals: list[Proposal] = []
        while len(proposals) < count and (proposal := self._seed_proposal() or self._next()):
            proposals.append(proposal)
        return proposals

    def tell(self, record: RuntimeRecord) -> None:
        self._ledger.tell(record)

    def pending(self) -> list[Proposal]:
        return self._ledger.pending()

    def expected_gain(self) -> float | None:
        return self._outlook.expected_gain()

    def state(self) -> dict[str, Any]:
        own = {"queue": [each.to_json() for each in self._queue], "rounds": self._outlook.rounds()}
        return self._ledger.state(self.name, self._seed, **own)

    def restore(self, state: Mapping[str, Any]) -> None:
        what = "A searcher's state"
        self._ledger = Ledger.restored(self._ledger, state, self.name, self._seed)
        self._queue = deque(Proposal.from_json(each) for each in required(state, "queue", list, what))
        self._outlook = Outlook([tuple(each) for each in required(state, "rounds", list, what)])

    def _seed_proposal(self) -> Proposal | None:
        if not self._ledger.begun:
            self._ledger.sort_seeds(lambda strategies: self._pool(strategies).forecast)
        proposal = self._ledger.next_seed()
        if proposal is None:
            return None
        seconds = math.exp(self._pool([proposal.strategy]).forecast[0])
        return self._ledger.claim(replace(proposal, predicted_seconds=seconds))

    def _next(self) -> Proposal | None:
        """The next proposal of this round, or of a new one; None while one is under way, or with the space used up."""
        while True:
            while self._queue:
                proposal = self._queue.popleft()
                if proposal.purpose == "remeasure" or self._ledger.is_new(proposal.strategy):
                    self._ledger.drawn += 1
                    return self._ledger.claim(proposal)
            if self._ledger.pending():
                return None
            self._queue.extend(self._picked())
            if not self._queue:
                return None

    def _picked(self) -> list[Proposal]:
        """A round's proposals; none when the space is used up."""
        self._refit()
        evidence = Evidence.of(self._ledger.observations(), self._coder, self._pool)
        rng = random.Random(f"{self._seed}/{self.name}/{self._outlook.round}")
        candidates, pool = self._candidates(evidence, rng)
        if not candidates:
            self._outlook.begin(evidence.best, [])
            return self._explored(rng)
        options, again = self._options, self._timed_again(evidence)
        count = max(1, options.round_size - len(again))
        picks = best_batch(evidence.residuals, pool, evidence.best, count, options.diverse)
        self._outlook.begin(evidence.best, [each.gain for each in picks])
        proposals = [Proposal(candidates[each.place], self.name, math.exp(pool.forecast[each.place])) for each in picks]
        return again + [self._perhaps_explored(each, rng) for each in proposals]

    def _refit(self) -> None:
        records = self._ledger.records()
        if any(record.timed for record in records):
            self._simulator.fit(records)
            self._relief.fit(records)

    def _timed_again(self, evidence: Evidence) -> list[Proposal]:
        """The leader, when it is its turn and it was timed once: it may have been lucky."""
        every = self._options.retime_every
        leaders = evidence.leaders(1)
        if not every or (self._outlook.round + 1) % every or not leaders or leaders[0].timings > 1:
            return []
        strategy = leaders[0].strategy
        label = next(each.label for each in self._ledger.records() if each.strategy == strategy)
        return [Proposal(strategy, label, math.exp(self._pool([strategy]).forecast[0]), "remeasure")]

    def _candidates(self, evidence: Evidence, rng: random.Random) -> tuple[list[Strategy], Pool]:
        """New strategies worth a look."""
        breeding = self._options.breeding
        left = self._ledger.left()
        if left is not None:
            some = rng.sample(left, min(len(left), breeding.most))
            return some, self._pool(some)
        leaders = [each.strategy for each in evidence.leaders(self._options.leaders)]
        pools: list[Pool] = []

        def promise(strategies: list[Strategy]) -> Floats:
            pools.append(self._pool(strategies))
            return evidence.residuals.promise(pools[-1])

        litter = breed(self._ledger.space, leaders, rng, promise, self._relief.child, breeding)
        new = np.array([self._ledger.is_new(each) for each in litter], np.bool_)
        return [each for each, keep in zip(litter, new, strict=True) if keep], Pool.joined(pools).where(new)

    def _pool(self, strategies: list[Strategy]) -> Pool:
        space = self._ledger.space
        decisions = self._coder.decisions(strategies)
        if not strategies:
            return Pool(decisions, np.zeros(0))
        return Pool(decisions, *with_spread(self._simulator, space.model, space.cluster, strategies))

    def _perhaps_explored(self, proposal: Proposal, rng: random.Random) -> Proposal:
        """The proposal, or now and then a sampled strategy in its place."""
        if rng.random() >= self._options.explore_share:
            return proposal
        return next(iter(self._explored(rng)), proposal)

    def _explored(self, rng: random.Random) -> list[Proposal]:
        """A new strategy that is sampled, if there is one."""
        strategy = fresh_strategy(self._ledger, lambda: self._ledger.space.sample(rng), rng)
        return [Proposal(strategy, "explore", math.exp(self._pool([strategy]).forecast[0]))] if strategy else []
