"""Breeds candidates on the simulator: hundreds of strategies a round, of which only a few will be timed."""

import gc
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt

from autosync.cost import AnalyticSimulator, Bottleneck, bottleneck
from autosync.cost.protocol import Simulator
from autosync.space import SearchSpace
from autosync.spec import RuntimeRecord, Strategy


@final
@dataclass(frozen=True)
class BreedingOptions:
    """The sizes of the generations, and how the founders are made.

    The first founders are the best leader with the other decision about the overlap with the next forward pass, and
    about the looked-up rows of a tied table, if the space offers it.
    Founders that are neither sampled nor relieved are mutants of leaders or, with `crossover_share`, crosses of two.
    """

    founders: int = 320
    """Strategies in the first generation."""
    generations: int = 2
    """Generations after the first."""
    children: int = 240
    """Strategies in each later generation."""
    parents: int = 40
    """The number of best strategies so far that have children."""
    sampled_share: float = 0.25
    """The share of founders sampled from the space."""
    relief_share: float = 0.25
    """The share of founders that are leaders with less load on their bottleneck."""
    crossover_share: float = 0.3
    """The share of children with two parents."""

    @property
    def most(self) -> int:
        """The largest possible number of candidates in a round."""
        return self.founders + self.generations * self.children


@contextmanager
def _no_collecting() -> Iterator[None]:
    """Turn Python's cyclic collector off while breeding.

    The collector walks all candidates again and again, which takes a quarter of the breeding time. Candidates hold no
    cycles, so there is no garbage to collect.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@_no_collecting()
def breed(
    space: SearchSpace,
    leaders: Sequence[Strategy],
    rng: random.Random,
    score: Callable[[list[Strategy]], npt.NDArray[np.float64]],
    relief: Callable[[Strategy, random.Random], Strategy],
    options: BreedingOptions,
) -> dict[Strategy, float]:
    """Return different strategies with their scores: near `leaders` (best first), near the best bred so far, and
    sampled.

    `score` returns float64 (n,), lower is better, and is called once for each strategy, in the order returned. `relief`
    returns a neighbour of a strategy with less load on its bottleneck.
    """
    scores: dict[Strategy, float] = {}

    def judge(strategies: list[Strategy]) -> None:
        new = [strategy for strategy in dict.fromkeys(strategies) if strategy not in scores]
        scores.update(zip(new, score(new).tolist(), strict=True))

    judge(list(_founders(space, leaders, rng, relief, options)))
    for _ in range(options.generations):
        parents = sorted(scores, key=scores.__getitem__)[: options.parents]
        judge([_child(space, parents, rng, options) for _ in range(options.children)])
    return scores


def _founders(
    space: SearchSpace,
    leaders: Sequence[Strategy],
    rng: random.Random,
    relief: Callable[[Strategy, random.Random], Strategy],
    options: BreedingOptions,
) -> Iterator[Strategy]:
    for leader in leaders[:1]:
        yield from space.with_other_overlap(leader)
        yield from space.with_other_rows(leader)
    for _ in range(options.founders):
        draw = rng.random()
        if not leaders or draw < options.sampled_share:
            yield space.sample(rng)
        elif draw < options.sampled_share + options.relief_share:
            yield relief(_draw_parent(leaders, rng), rng)
        else:
            yield _child(space, leaders, rng, options)


def _child(space: SearchSpace, parents: Sequence[Strategy], rng: random.Random, options: BreedingOptions) -> Strategy:
    first = _draw_parent(parents, rng)
    if len(parents) > 1 and rng.random() < options.crossover_share:
        return space.crossover(first, _draw_parent(parents, rng), rng)
    return space.mutate(first, rng)


def _draw_parent(parents: Sequence[Strategy], rng: random.Random) -> Strategy:
    """Draw a parent so that better ones are likelier: the best of two draws. `parents` are best first."""
    return parents[min(rng.randrange(len(parents)), rng.randrange(len(parents)))]


@final
class Relief:
    """Finds bottlenecks by the closed form: `simulator` itself if it is the closed form, else a second simulator fitted
    alongside.
    """

    def __init__(self, space: SearchSpace, simulator: Simulator) -> None:
        self._space = space
        self._is_own = not isinstance(simulator, AnalyticSimulator)
        self._closed_form = simulator if isinstance(simulator, AnalyticSimulator) else AnalyticSimulator()
        self._known: dict[Strategy, Bottleneck] = {}
        self._unlearned: Sequence[RuntimeRecord] = ()

    def fit(self, records: Sequence[RuntimeRecord]) -> None:
        """Store the records that the searcher's simulator was fitted to; the next call of `child` fits to them."""
        if self._is_own:
            self._unlearned = records
        self._known.clear()

    def child(self, strategy: Strategy, rng: random.Random) -> Strategy:
        """Return a neighbour of `strategy`: one move on a few variables, drawn in proportion to their load on the
        bottleneck.
        """
        if self._unlearned:
            self._closed_form.fit(self._unlearned)
            self._unlearned = ()
        if strategy not in self._known:
            space = self._space
            self._known[strategy] = bottleneck(space.model, space.cluster, strategy, self._closed_form.coefficients)
        busiest = self._known[strategy]
        return self._space.relieve(strategy, busiest.shares, busiest.servers, rng)
