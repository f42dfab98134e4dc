"""Recorded strategies: a space cut down to them, and the table that answers proposals with their records."""

import math
import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import final

import numpy as np

from autosync.search.guided.decisions import DecisionCoder, Decisions
from autosync.search.protocol import Proposal
from autosync.space import SearchSpace
from autosync.spec import RuntimeRecord, Strategy
from autosync.tune.recorded.cells import RecordedCell
from trials.trial import TrialRequest

LENGTH = 0.3
"""Length of the kernel that says which strategies are alike, in shares of the variables decided differently."""


@final
class PoolSpace:
    """What a `SearchSpace` offers, but with the strategies in `members` alone.

    Wherever the real space would give a strategy, this gives the member most like it (by `DecisionCoder.kernel`) among
    those that `is_open`, which for a replay are those not yet timed; so a searcher moves through the pool as it would
    through the space, and is not sent back to where it was. Members are canonical; they may lie outside the space, as
    baselines do at times.
    """

    def __init__(
        self, space: SearchSpace, members: Sequence[Strategy], is_open: Callable[[Strategy], bool] = lambda _: True
    ) -> None:
        self._space = space
        self._members = tuple(members)
        self._known = frozenset(members)
        self._is_open = is_open
        self.name, self.model, self.cluster = f"pool of {space.name}", space.model, space.cluster
        self.domains = space.domains
        self.replicas = space.replicas
        self.size = len(self._members)
        self.log10_size = math.log10(max(1, self.size))
        self.decided_variables = space.decided_variables
        self.effective_dimension = space.effective_dimension

    def is_small(self) -> bool:
        return True

    def enumerate(self) -> Iterator[Strategy]:
        """Every member once."""
        return iter(self._members)

    def contains(self, strategy: Strategy) -> bool:
        return self.canonical(strategy) in self._known

    def why_not(self, strategy: Strategy) -> str | None:
        if self.contains(strategy):
            return None
        return f"Strategy {strategy.digest} was not timed; the pool holds {self.size} that were."

    def canonical(self, strategy: Strategy) -> Strategy:
        return self._space.canonical(strategy)

    def sample(self, rng: random.Random) -> Strategy:
        """An open member, drawn with the same chance as any other."""
        return rng.choice(self._open())

    def mutate(self, strategy: Strategy, rng: random.Random) -> Strategy:
        """The open member, other than `strategy`, that is nearest to a mutation of it."""
        return self._nearest(self._space.mutate(strategy, rng), strategy)

    def relieve(
        self, strategy: Strategy, shares: Mapping[str, float], busy: Collection[str], rng: random.Random
    ) -> Strategy:
        """The open member, other than `strategy`, that is nearest to one with a lighter bottleneck."""
        return self._nearest(self._space.relieve(strategy, shares, busy, rng), strategy)

    def crossover(self, first: Strategy, second: Strategy, rng: random.Random) -> Strategy:
        """The open member, other than its parents, that is nearest to their child."""
        return self._nearest(self._space.crossover(first, second, rng), first, second)

    def adopt(self, strategy: Strategy, rng: random.Random) -> Strategy:
        """`strategy` if it is an open member; else the open one that is nearest to what the space would make of it."""
        own = self.canonical(strategy)
        if own in self._known and self._is_open(own):
            return own
        return self._nearest(self._space.adopt(strategy, rng))

    def _open(self, *but: Strategy) -> Sequence[Strategy]:
        """Open members other than `but`; where there is none, other members that are not open, or any."""
        others = [each for each in self._members if each not in but]
        return [each for each in others if self._is_open(each)] or others or self._members

    def _nearest(self, strategy: Strategy, *but: Strategy) -> Strategy:
        some = {each.digest for each in self._open(*but)}
        likeness = self._coder.kernel(self._coder.decisions([strategy]), self._decisions, LENGTH)[0]
        nearest_first = (self._members[index] for index in np.argsort(-likeness, kind="stable"))
        return next(each for each in nearest_first if each.digest in some)

    @cached_property
    def _coder(self) -> DecisionCoder:
        return DecisionCoder(self._space.model)

    @cached_property
    def _decisions(self) -> Decisions:
        return self._coder.decisions(self._members)


RUN = "replay"
"""The name of the run that its records belong to."""


@final
class RecordedTable:
    """Turns proposals into records. `clock_seconds` is when the last trial ended, had trials been run one by one.

    Of a strategy that was timed several times, `seed` draws which trial comes first, so that a search meets the noise
    that there is; asked for again, the others follow in turn.
    """

    def __init__(self, cell: RecordedCell, seed: int) -> None:
        self._cell = cell
        self._seed = seed
        self._timed: dict[str, int] = {}
        self.clock_seconds = 0.0

    def __call__(self, proposal: Proposal | TrialRequest) -> RuntimeRecord:
        """The record of `proposal`, as of a trial that begins now. Raises `KeyError` for one that was never timed."""
        strategy = self._cell.space.canonical(proposal.strategy)
        trials = list(self._cell.trials[strategy])
        random.Random(f"{self._seed}/{strategy.digest}").shuffle(trials)
        times = self._timed.get(strategy.digest, 0)
        self._timed[strategy.digest] = times + 1
        found = trials[times % len(trials)]
        begun, self.clock_seconds = self.clock_seconds, self.clock_seconds + found.total_seconds
        return replace(
            found,
            strategy=proposal.strategy,
            purpose=proposal.purpose,
            label=proposal.label,
            predicted_seconds=proposal.predicted_seconds,
            run=RUN,
            seed=self._seed,
            started_at=begun,
        )

    def is_open(self, strategy: Strategy) -> bool:
        """Whether `strategy`, a canonical one, is yet to be timed."""
        return strategy.digest not in self._timed
