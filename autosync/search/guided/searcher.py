"""Guided search: breed hundreds a round on a simulator, time the few that promise most, learn from the records."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np
import numpy.typing as npt

from autosync.cost import Simulator, with_spread
from autosync.search.guided.acquisition import Evidence, Pool, best_picks
from autosync.search.guided.breeding import BreedingOptions, Relief, breed
from autosync.search.guided.decisions import DecisionCoder
from autosync.search.guided.outlook import Outlook
from autosync.search.ledger import STATE
from autosync.search.protocol import FIRST_BASELINES, Proposal
from autosync.search.searcher import Asked, RoundSearch
from autosync.space import SearchSpace
from autosync.spec import Strategy
from autosync.spec.codec import required

Floats = npt.NDArray[np.float64]


@final
@dataclass(frozen=True)
class GuidedOptions:
    """After the `first_baselines` baselines with the shortest predicted step, a round breeds candidates from the
    `leaders` best timed strategies, and from baselines that are left while fewer were timed. It proposes `round_size`
    to time, of these and the baselines left.

    Each pick is instead, with chance `explore_share`, a strategy sampled without regard to the simulator.
    """

    first_baselines: int = FIRST_BASELINES
    round_size: int = 4
    leaders: int = 10
    explore_share: float = 0.05
    breeding: BreedingOptions = field(default_factory=BreedingOptions)


@final
class GuidedSearch(RoundSearch):
    """Proposes baselines, then in rounds; a round depends on what was answered before it began, and on that alone.

    Only a few baselines come first. The others are candidates of every round, so one that promises little is proposed
    late or never, unless `ask_baselines` is called for it in time.

    The searcher owns `simulator` and fits it to all records at the start of a round. Before that it is asked about the
    baselines alone, and what it said of them is kept. What it says may depend on the records of its last two fits,
    where it lags a fit behind; none of its state is kept, but a restored search repeats the last fit. A simulator with
    a `predict_with_spread` also says how sure it is.
    """

    name = "guided"

    def __init__(
        self,
        space: SearchSpace,
        baselines: Sequence[tuple[str, Strategy]],
        seed: int,
        simulator: Simulator,
        options: GuidedOptions = GuidedOptions(),
    ) -> None:
        super().__init__(space, baselines, seed)
        self._simulator = simulator
        self._options = options
        self._coder = DecisionCoder(space.model)
        self._relief = Relief(space, simulator)
        self._outlook = Outlook()
        self._predicted: dict[str, float] = {}
        """Predicted log step seconds of the baselines that were left when the round began, by digest."""
        self._fitted = 0
        """Number of proposals whose records the simulator was fitted to."""

    @classmethod
    def of(cls, asked: Asked) -> GuidedSearch:
        options = GuidedOptions(round_size=asked.round_size or GuidedOptions.round_size)
        return cls(asked.space, asked.baselines, asked.seed, asked.simulator(), options)

    def ask(self, count: int) -> list[Proposal]:
        return self._asked(count, self._next)

    def _asked(self, count: int, following: Callable[[], Proposal | None]) -> list[Proposal]:
        if not self._ledger.proposals:
            self._predict_baselines()
        return super()._asked(count, following)

    def expected_gain(self) -> float | None:
        return self._outlook.expected_gain()

    def _own_state(self) -> dict[str, Any]:
        rounds, predicted = self._outlook.rounds(), dict(self._predicted)
        return super()._own_state() | {"rounds": rounds, "foretold": predicted, "fitted": self._fitted}

    def _restore_own(self, state: Mapping[str, Any]) -> None:
        super()._restore_own(state)
        self._outlook = Outlook.restored(required(state, "rounds", list, STATE))
        predicted = required(state, "foretold", dict, STATE)
        self._predicted = {name: required(predicted, name, float, STATE) for name in predicted}
        self._fitted = required(state, "fitted", int, STATE)
        if self._fitted:
            self._fit()

    def _baseline_proposal(self) -> Proposal | None:
        """The baseline with the shortest predicted step among those left."""
        left = self._ledger.baselines_left()
        if not left:
            return None
        baseline = min(left, key=self._prediction_of)
        predicted = self._prediction_of(baseline)
        seconds = math.exp(predicted) if predicted < math.inf else None
        return self._ledger.claim(replace(baseline, predicted_seconds=seconds))

    def _prediction_of(self, baseline: Proposal) -> float:
        """Predicted log step seconds; infinite for a baseline that only a later version of the program gave."""
        return self._predicted.get(baseline.strategy.digest, math.inf)

    def _next(self) -> Proposal | None:
        """The next of the first baselines, then of the rounds."""
        if self._ledger.proposals < self._options.first_baselines + len(self._ledger.given) and (
            baseline := self._baseline_proposal()
        ):
            return baseline
        return super()._next()

    def _picked(self) -> list[Proposal]:
        self._refit()
        evidence = Evidence.of(self._ledger.observations(), self._coder, self._pool)
        rng = random.Random(f"{self._seed}/{self.name}/{self._outlook.round}")
        candidates, pool = self._candidates(evidence, rng)
        if not candidates:
            self._outlook.begin(evidence.best, 0.0)
            return self._explored(rng)
        picks = best_picks(evidence.residuals, pool, evidence.best, self._options.round_size)
        self._outlook.begin(evidence.best, picks[0].gain)
        proposals = [self._proposal(candidates[each.place], self.name, pool.predicted[each.place]) for each in picks]
        return [self._perhaps_explored(each, rng) for each in proposals]

    def _proposal(self, strategy: Strategy, label: str, predicted: float) -> Proposal:
        """A proposal of `strategy`, under its own name if it is a baseline."""
        proposal = self._ledger.baseline_like(strategy) or Proposal(strategy, label)
        return replace(proposal, predicted_seconds=math.exp(predicted))

    def _refit(self) -> None:
        self._fitted = self._ledger.proposals
        self._fit()

    def _fit(self) -> None:
        records = self._ledger.records(self._fitted)
        if any(record.timed for record in records):
            self._simulator.fit(records)
            self._relief.fit(records)

    def _candidates(self, evidence: Evidence, rng: random.Random) -> tuple[list[Strategy], Pool]:
        """New strategies worth a look, baselines among them."""
        breeding = self._options.breeding
        baselines, pool = self._predict_baselines()
        left = self._ledger.left()
        if left is not None:
            others = [each for each in left if self._ledger.is_new_and_no_baseline(each)]
            some = rng.sample(others, min(len(others), breeding.most))
            return some + baselines, Pool.joined([self._pool(some), pool])
        leaders = [*(each.strategy for each in evidence.leaders(self._options.leaders)), *baselines]
        pools: list[Pool] = []

        def promise(strategies: list[Strategy]) -> Floats:
            pools.append(self._pool(strategies))
            return evidence.residuals.promise(pools[-1])

        litter = breed(self._ledger.space, leaders[: self._options.leaders], rng, promise, self._relief.child, breeding)
        new = [self._ledger.is_new_and_no_baseline(each) for each in litter]
        bred = [each for each, keep in zip(litter, new, strict=True) if keep]
        return bred + baselines, Pool.joined([Pool.joined(pools).where(np.array(new, np.bool_)), pool])

    def _predict_baselines(self) -> tuple[list[Strategy], Pool]:
        """Baselines that were not proposed, with what is predicted of them, that with the shortest step first."""
        baselines = [each.strategy for each in self._ledger.baselines_left()]
        pool = self._pool(baselines)
        order = np.argsort(pool.predicted, kind="stable")
        baselines, pool = [baselines[place] for place in order], pool.where(order)
        names = [each.digest for each in baselines]
        self._predicted = dict(zip(names, pool.predicted.tolist(), strict=True))
        return baselines, pool

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
        strategy = self._ledger.sampled(rng)
        return [self._proposal(strategy, "explore", self._pool([strategy]).predicted[0])] if strategy else []
