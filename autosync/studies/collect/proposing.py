"""Proposing the strategy of a slot: a baseline, drawn from the space, or bred from the best, blindly or guided."""

import random
from collections.abc import Sequence
from typing import final

from autosync.baselines import BASELINES, different_strategies
from autosync.cost import AnalyticSimulator
from autosync.search.guided.searcher import GuidedOptions, GuidedSearch
from autosync.search.ledger import Ledger
from autosync.search.protocol import Proposal
from autosync.space import SearchSpace
from autosync.spec import RuntimeRecord, Strategy
from autosync.stats.cells import CellName
from autosync.studies.collect.plan import Plan
from autosync.studies.collect.schedule import Slot

PARENTS_SHARE, FEWEST_PARENTS = 0.25, 5
"""Share of the strategies timed, the fastest, from which new ones are bred, and the fewest that are bred from."""

CROSSOVER_SHARE = 0.3

GUIDED_SHARE = 0.5
"""Share of those bred that are what a search would time next; so records lie where searches go, and not only there."""

ONE = GuidedOptions(round_size=1, explore_share=0.0)


@final
class Proposer:
    """Proposes what a cell's records do not hold yet. Same records and slot, same proposal, in any process."""

    def __init__(self, plan: Plan, cell: CellName, space: SearchSpace) -> None:
        self._plan = plan
        self._cell = cell
        self._space = space
        self._ledger = Ledger(space, ())
        self._baselines = different_strategies(BASELINES, space.model, space.cluster)
        self._original: dict[int, RuntimeRecord] = {}

    def tell(self, record: RuntimeRecord) -> None:
        """Learn what a slot has brought. A lost trial says nothing, but its strategy stays its slot's."""
        if record.purpose != "remeasure" and record.sequence is not None:
            self._original[record.sequence] = record
        self._ledger.tell(record)

    def propose(self, slot: Slot) -> Proposal | None:
        """The proposal to time in `slot`; None when its original could not be timed, or the space is used up."""
        if slot.original is not None:
            original = self._original.get(slot.original)
            if original is None or not original.timed:
                return None
            return Proposal(original.strategy, original.label, purpose="remeasure")
        before = self._original.get(slot.number)
        if before is not None:  # it was lost, and has another go
            return Proposal(before.strategy, before.label, purpose=before.purpose)
        return self._baseline(slot) or self._new(slot)

    def _baseline(self, slot: Slot) -> Proposal | None:
        """The baseline whose turn it is, if it fits and no earlier one makes the same decisions."""
        name = list(BASELINES)[slot.ordinal] if slot.ordinal < len(BASELINES) else ""
        if name not in self._baselines:
            return None
        return Proposal(self._baselines[name], name, purpose="baseline")

    def _new(self, slot: Slot) -> Proposal | None:
        rng = slot.rng(self._plan, self._cell)
        parents = self._parents() if slot.bred else []
        if parents and rng.random() < GUIDED_SHARE and (guided := self._guided(rng)):
            return guided
        label = "random"
        if parents:
            label = "crossover" if len(parents) > 1 and rng.random() < CROSSOVER_SHARE else "mutation"
        strategy = self._ledger.fresh(lambda: self._drawn(label, parents, rng), rng)
        return None if strategy is None else Proposal(strategy, label)

    def _guided(self, rng: random.Random) -> Proposal | None:
        """The strategy that a search knowing the cell's records would time next, on a closed form fitted to them."""
        search = GuidedSearch(self._space, (), rng.getrandbits(32), AnalyticSimulator(), ONE)
        for record in self._ledger.records():
            search.tell(record)
        return next(iter(search.ask(1)), None)

    def _drawn(self, label: str, parents: Sequence[Strategy], rng: random.Random) -> Strategy:
        if label == "random":
            return self._space.sample(rng)
        if label == "crossover":
            first, second = rng.sample(parents, 2)
            return self._space.crossover(first, second, rng)
        return self._space.mutate(rng.choice(parents), rng)

    def _parents(self) -> list[Strategy]:
        """The fastest strategies so far, fastest first."""
        timed = sorted(self._ledger.observations(), key=lambda each: each.median_seconds)
        return [each.strategy for each in timed[: max(FEWEST_PARENTS, int(PARENTS_SHARE * len(timed)))]]
