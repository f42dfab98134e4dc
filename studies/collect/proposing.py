"""Proposes the strategy of a slot: a baseline, a random strategy, or one bred from the best, with or without
guidance."""

import random
from collections.abc import Sequence
from typing import final

from autosync.baselines import baselines_for, different_strategies
from autosync.cost import PRIORS, AnalyticSimulator
from autosync.engine.core.registry import name_in_records
from autosync.search.guided.searcher import GuidedOptions, GuidedSearch
from autosync.search.ledger import Ledger
from autosync.search.protocol import Proposal
from autosync.space import SearchSpace
from autosync.spec import RuntimeRecord, Strategy
from autosync.stats.cells import CellName
from studies.collect.plan import Plan
from studies.collect.schedule import Slot

PARENTS_SHARE, FEWEST_PARENTS = 0.25, 5
"""Share of the timed strategies (the fastest) that new strategies are bred from, and the fewest parents."""

CROSSOVER_SHARE = 0.3

GUIDED_SHARE = 0.5
"""Share of the bred strategies that a guided search proposes. So records cover the regions that searches visit, and
other regions too."""

ONE_A_ROUND = GuidedOptions(round_size=1, explore_share=0.0)


@final
class Proposer:
    """Proposes strategies that a cell's records lack. The same records and slot give the same proposal in any
    process."""

    def __init__(self, plan: Plan, cell: CellName, space: SearchSpace) -> None:
        self._plan = plan
        self._cell = cell
        self._space = space
        self._ledger = Ledger(space, ())
        known = baselines_for(plan.framework)
        self._baseline_names = list(known)
        self._baselines = different_strategies(known, space.model, space.cluster)
        self._original: dict[int, RuntimeRecord] = {}

    def tell(self, record: RuntimeRecord) -> None:
        """Learn from the record of a slot. A lost trial has no timing, but its strategy stays assigned to its slot."""
        if record.purpose != "remeasure" and record.sequence is not None:
            self._original[record.sequence] = record
        self._ledger.tell(record)

    def propose(self, slot: Slot) -> Proposal | None:
        """Return the proposal for `slot`; None if its original has no timing, or the space is exhausted."""
        if slot.original is not None:
            original = self._original.get(slot.original)
            if original is None or not original.timed:
                return None
            return Proposal(original.strategy, original.label, purpose="remeasure")
        before = self._original.get(slot.number)
        if before is not None:  # the trial was lost and is retried
            return Proposal(before.strategy, before.label, purpose=before.purpose)
        return self._baseline(slot) or self._new(slot)

    def _baseline(self, slot: Slot) -> Proposal | None:
        """Return the slot's baseline, if it fits the cluster and differs from all earlier baselines."""
        name = next(iter(self._baseline_names[slot.ordinal : slot.ordinal + 1]), "")
        if name not in self._baselines:
            return None
        return Proposal(self._baselines[name], name, purpose="baseline")

    def _new(self, slot: Slot) -> Proposal | None:
        rng = slot.rng(self._plan, self._cell)
        parents = self._parents() if slot.bred else []
        if parents and rng.random() < GUIDED_SHARE and (guided := self._propose_guided(rng)):
            return guided
        label = "random"
        if parents:
            label = "crossover" if len(parents) > 1 and rng.random() < CROSSOVER_SHARE else "mutation"
        strategy = self._ledger.fresh(lambda: self._draw(label, parents, rng), rng)
        return None if strategy is None else Proposal(strategy, label)

    def _propose_guided(self, rng: random.Random) -> Proposal | None:
        """Return the next proposal of a guided search that has seen the cell's records, on a closed form fitted to
        them."""
        simulator = AnalyticSimulator(PRIORS[name_in_records(self._plan.framework)])
        search = GuidedSearch(self._space, (), rng.getrandbits(32), simulator, ONE_A_ROUND)
        for record in self._ledger.records():
            search.tell(record)
        return next(iter(search.ask(1)), None)

    def _draw(self, label: str, parents: Sequence[Strategy], rng: random.Random) -> Strategy:
        if label == "random":
            return self._space.sample(rng)
        if label == "crossover":
            first, second = rng.sample(parents, 2)
            return self._space.crossover(first, second, rng)
        return self._space.mutate(rng.choice(parents), rng)

    def _parents(self) -> list[Strategy]:
        """Return the fastest strategies so far, fastest first."""
        timed = sorted(self._ledger.observations(), key=lambda observation: observation.median_seconds)
        return [observation.strategy for observation in timed[: max(FEWEST_PARENTS, int(PARENTS_SHARE * len(timed)))]]
