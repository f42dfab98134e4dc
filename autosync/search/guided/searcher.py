"""Guided search: breed hundreds of strategies a round on a simulator, time the most promising few, learn from the
records.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np

from autosync.cost import Simulator, with_spread
from autosync.numeric import FloatArray
from autosync.search.guided.acquisition import Evidence, Pool, best_picks
from autosync.search.guided.breeding import BreedingOptions, Relief, breed
from autosync.search.guided.decisions import DecisionCoder
from autosync.search.guided.outlook import Outlook
from autosync.search.ledger import STATE
from autosync.search.protocol import FIRST_BASELINES, Proposal
from autosync.search.searcher import RoundSearch, SearcherArguments
from autosync.space import SearchSpace
from autosync.spec import Strategy
from autosync.spec.codec import read_required


@final
@dataclass(frozen=True)
class GuidedOptions:
    """The sizes of a guided search.

    A round breeds candidates from the best timed strategies, and from remaining baselines while fewer than `leaders`
    strategies were timed. It proposes `round_size` strategies, chosen among these candidates and the remaining
    baselines.
    """

    first_baselines: int = FIRST_BASELINES
    """The number of baselines proposed before the first round, those with the shortest predicted step."""
    round_size: int = 4
    """Proposals in a round."""
    leaders: int = 10
    """The number of best timed strategies that candidates are bred from."""
    explore_share: float = 0.05
    """The chance that a pick is replaced by a strategy sampled without the simulator."""
    breeding: BreedingOptions = field(default_factory=BreedingOptions)


@final
class GuidedSearch(RoundSearch):
    """Proposes a few baselines, then rounds. A round depends only on the answers that arrived before it began.

    The remaining baselines are candidates of every round. So a baseline that promises little is proposed late or never,
    unless `ask_baselines` is called in time.

    The searcher owns `simulator` and fits it to all records at the start of a round. Before that, the simulator
    predicts only the baselines, and the searcher keeps these predictions. A simulator that lags a fit behind may depend
    on the records of its last two fits. The simulator's state is not saved; instead, a restored search repeats the last
    fit. A simulator with `predict_with_spread` also states its uncertainty.
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
        """Predicted log step seconds of the baselines that remained when the round began, by digest."""
        self._fitted = 0
        """Number of proposals whose records the simulator was fitted to."""

    @classmethod
    def of(cls, arguments: SearcherArguments) -> GuidedSearch:
        options = GuidedOptions(round_size=arguments.round_size or GuidedOptions.round_size)
        return cls(arguments.space, arguments.baselines, arguments.seed, arguments.simulator(), options)

    def ask(self, count: int) -> list[Proposal]:
        return self._collect(count, self._next)

    def _collect(self, count: int, following: Callable[[], Proposal | None]) -> list[Proposal]:
        if not self._ledger.proposals:
            self._predict_baselines()
        return super()._collect(count, following)

    def expected_gain(self) -> float | None:
        return self._outlook.expected_gain()

    def _extra_state(self) -> dict[str, Any]:
        rounds, predicted = self._outlook.rounds(), dict(self._predicted)
        return super()._extra_state() | {"rounds": rounds, "foretold": predicted, "fitted": self._fitted}

    def _restore_extra(self, state: Mapping[str, Any]) -> None:
        super()._restore_extra(state)
        self._outlook = Outlook.from_json(read_required(state, "rounds", list, STATE))
        predicted = read_required(state, "foretold", dict, STATE)
        self._predicted = {name: read_required(predicted, name, float, STATE) for name in predicted}
        self._fitted = read_required(state, "fitted", int, STATE)
        if self._fitted:
            self._fit()

    def _next_baseline(self) -> Proposal | None:
        """Claim the baseline with the shortest predicted step among the remaining ones."""
        left = self._ledger.baselines_left()
        if not left:
            return None
        baseline = min(left, key=self._prediction_of)
        predicted = self._prediction_of(baseline)
        seconds = math.exp(predicted) if predicted < math.inf else None
        return self._ledger.claim(replace(baseline, predicted_seconds=seconds))

    def _prediction_of(self, baseline: Proposal) -> float:
        """Return the predicted log step seconds; infinite for a baseline that only a later version of the program
        knows.
        """
        return self._predicted.get(baseline.strategy.digest, math.inf)

    def _next(self) -> Proposal | None:
        """Return the next of the first baselines, then of the rounds."""
        if self._ledger.proposals < self._options.first_baselines + len(self._ledger.given) and (
            baseline := self._next_baseline()
        ):
            return baseline
        return super()._next()

    def _pick_round(self) -> list[Proposal]:
        self._refit()
        evidence = Evidence.of(self._ledger.observations(), self._coder, self._pool)
        rng = random.Random(f"{self._seed}/{self.name}/{self._outlook.round}")
        candidates, pool = self._candidates(evidence, rng)
        if not candidates:
            self._outlook.begin(evidence.best, 0.0)
            return self._sample_to_explore(rng)
        picks = best_picks(evidence.residuals, pool, evidence.best, self._options.round_size)
        self._outlook.begin(evidence.best, picks[0].gain)
        proposals = [self._proposal(candidates[pick.place], self.name, pool.predicted[pick.place]) for pick in picks]
        return [self._maybe_explore(proposal, rng) for proposal in proposals]

    def _proposal(self, strategy: Strategy, label: str, predicted: float) -> Proposal:
        """Return a proposal of `strategy`, under its own name if it is a baseline."""
        proposal = self._ledger.matching_baseline(strategy) or Proposal(strategy, label)
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
        """Return new strategies worth a prediction, baselines included."""
        breeding = self._options.breeding
        baselines, pool = self._predict_baselines()
        left = self._ledger.left()
        if left is not None:
            candidates = [strategy for strategy in left if self._ledger.is_new_and_no_baseline(strategy)]
            sampled = rng.sample(candidates, min(len(candidates), breeding.most))
            return sampled + baselines, Pool.concatenate([self._pool(sampled), pool])
        leaders = [*(observation.strategy for observation in evidence.leaders(self._options.leaders)), *baselines]
        pools: list[Pool] = []

        def promise(strategies: list[Strategy]) -> FloatArray:
            pools.append(self._pool(strategies))
            return evidence.residuals.promise(pools[-1])

        litter = breed(self._ledger.space, leaders[: self._options.leaders], rng, promise, self._relief.child, breeding)
        new = [self._ledger.is_new_and_no_baseline(strategy) for strategy in litter]
        bred = [strategy for strategy, keep in zip(litter, new, strict=True) if keep]
        return bred + baselines, Pool.concatenate([Pool.concatenate(pools).where(np.array(new, np.bool_)), pool])

    def _predict_baselines(self) -> tuple[list[Strategy], Pool]:
        """Return the baselines not yet proposed and their predictions, the shortest predicted step first."""
        baselines = [proposal.strategy for proposal in self._ledger.baselines_left()]
        pool = self._pool(baselines)
        order = np.argsort(pool.predicted, kind="stable")
        baselines, pool = [baselines[place] for place in order], pool.where(order)
        names = [strategy.digest for strategy in baselines]
        self._predicted = dict(zip(names, pool.predicted.tolist(), strict=True))
        return baselines, pool

    def _pool(self, strategies: list[Strategy]) -> Pool:
        space = self._ledger.space
        decisions = self._coder.decisions(strategies)
        if not strategies:
            return Pool(decisions, np.zeros(0))
        return Pool(decisions, *with_spread(self._simulator, space.model, space.cluster, strategies))

    def _maybe_explore(self, proposal: Proposal, rng: random.Random) -> Proposal:
        """Return the proposal, or now and then a sampled strategy instead."""
        if rng.random() >= self._options.explore_share:
            return proposal
        return next(iter(self._sample_to_explore(rng)), proposal)

    def _sample_to_explore(self, rng: random.Random) -> list[Proposal]:
        """Return a newly sampled strategy as a list; an empty list if none is left."""
        strategy = self._ledger.sample_new(rng)
        return [self._proposal(strategy, "explore", self._pool([strategy]).predicted[0])] if strategy else []
