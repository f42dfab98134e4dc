"""A search space restricted to a list of strategies."""

import math
import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import final

import numpy as np

from autosync.search.guided.decisions import DecisionCoder, Decisions
from autosync.space import SearchSpace
from autosync.spec import Strategy

LENGTH = 0.3
"""The length scale of the similarity kernel, as a share of the variables that are decided differently."""


@final
class PoolSpace:
    """A `SearchSpace` restricted to the strategies in `members`.

    Where the real space would return a strategy, the pool returns the most similar member (by `DecisionCoder.kernel`)
    that `is_open`; in a replay, members not yet timed are open. A searcher thus moves through the pool as through the
    space, and is never sent back to a timed strategy. Members are canonical. They may lie outside the space, as some
    baselines do.
    """

    def __init__(
        self,
        space: SearchSpace,
        members: Sequence[Strategy],
        is_open: Callable[[Strategy], bool] = lambda _: True,
        name: str | None = None,
    ) -> None:
        self._space = space
        self._members = tuple(members)
        self._known = frozenset(members)
        self._is_open = is_open
        self.name, self.model, self.cluster = name or f"pool of {space.name}", space.model, space.cluster
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

    def with_other_overlap(self, strategy: Strategy) -> tuple[Strategy, ...]:
        candidates = map(self.canonical, self._space.with_other_overlap(strategy))
        return tuple(candidate for candidate in candidates if candidate in self._known and self._is_open(candidate))

    def with_other_rows(self, strategy: Strategy) -> tuple[Strategy, ...]:
        candidates = map(self.canonical, self._space.with_other_rows(strategy))
        return tuple(candidate for candidate in candidates if candidate in self._known and self._is_open(candidate))

    def canonical(self, strategy: Strategy) -> Strategy:
        return self._space.canonical(strategy)

    def sample(self, rng: random.Random) -> Strategy:
        """An open member, drawn uniformly."""
        return rng.choice(self._candidates())

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
        """`strategy` if it is an open member; else the open member nearest to the space's adaptation of `strategy`."""
        canonical = self.canonical(strategy)
        if canonical in self._known and self._is_open(canonical):
            return canonical
        return self._nearest(self._space.adopt(strategy, rng))

    def _candidates(self, *but: Strategy) -> Sequence[Strategy]:
        """Open members except `but`; if there are none, any members except `but`; if there are none either, all
        members.
        """
        others = [member for member in self._members if member not in but]
        return [member for member in others if self._is_open(member)] or others or self._members

    def _nearest(self, strategy: Strategy, *but: Strategy) -> Strategy:
        some = {member.digest for member in self._candidates(*but)}
        likeness = self._coder.kernel(self._coder.decisions([strategy]), self._decisions, LENGTH)[0]
        nearest_first = (self._members[index] for index in np.argsort(-likeness, kind="stable"))
        nearest: Strategy = next(member for member in nearest_first if member.digest in some)
        return nearest

    @cached_property
    def _coder(self) -> DecisionCoder:
        return DecisionCoder(self._space.model)

    @cached_property
    def _decisions(self) -> Decisions:
        return self._coder.decisions(self._members)
