"""Breeding candidates on the simulator: hundreds of strategies a round, of which only a few will be timed."""

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
    """A first generation of `founders`, then `generations` of `children` from the `parents` best so far.

    Of founders `sampled_share` are sampled and `relief_share` are leaders with something taken off their bottleneck;
    all others are mutants or, a `crossover_share` of them, crosses of two.
    """

    founders: int = 320
    generations: int = 2
    children: int = 240
    parents: int = 40
    sampled_share: float = 0.25
    relief_share: float = 0.25
    crossover_share: float = 0.3

    @property
    def most(self) -> int:
        """The most candidates that a round may have."""
        return self.founders + self.generations * self.children


@contextmanager
def _no_collecting() -> Iterator[None]:
    """Keep Python's cyclic collector off: it walks all candidates again and again, a quarter of the time that breeding
    takes, and they hold no cycles."""
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
    """Different strategies, each with its score: near `leaders` (best first), near the best found, and sampled.

    `score` gives float64 (n,), lower is better, and is asked once about each strategy, in the order returned. `relief`
    gives a strategy's neighbour with a lighter bottleneck.
    """
    scores: dict[Strategy, float] = {}

    def judge(strategies: list[Strategy]) -> None:
        new = [each for each in dict.fromkeys(strategies) if each not in scores]
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
    for _ in range(options.founders):
        draw = rng.random()
        if not leaders or draw < options.sampled_share:
            yield space.sample(rng)
        elif draw < options.sampled_share + options.relief_share:
            yield relief(_drawn(leaders, rng), rng)
        else:
            yield _child(space, leaders, rng, options)


def _child(space: SearchSpace, parents: Sequence[Strategy], rng: random.Random, options: BreedingOptions) -> Strategy:
    first = _drawn(parents, rng)
    if len(parents) > 1 and rng.random() < options.crossover_share:
        return space.crossover(first, _drawn(parents, rng), rng)
    return space.mutate(first, rng)


def _drawn(parents: Sequence[Strategy], rng: random.Random) -> Strategy:
    """A parent, drawn so that better ones are likelier: the best of two draws. `parents` are best first."""
    return parents[min(rng.randrange(len(parents)), rng.randrange(len(parents)))]


@final
class Relief:
    """Finds bottlenecks by the closed form: by `simulator` itself if it is that, else by one fitted beside it."""

    def __init__(self, space: SearchSpace, simulator: Simulator) -> None:
        self._space = space
        self._is_own = not isinstance(simulator, AnalyticSimulator)
        self._closed_form = simulator if isinstance(simulator, AnalyticSimulator) else AnalyticSimulator()
        self._known: dict[Strategy, Bottleneck] = {}
        self._unlearned: Sequence[RuntimeRecord] = ()

    def fit(self, records: Sequence[RuntimeRecord]) -> None:
        """Learn, once a child is asked for, from the records that the searcher's simulator has just been fitted to."""
        if self._is_own:
            self._unlearned = records
        self._known.clear()

    def child(self, strategy: Strategy, rng: random.Random) -> Strategy:
        """A neighbour of `strategy`: one move on a few variables, drawn by how much they load the bottleneck."""
        if self._unlearned:
            self._closed_form.fit(self._unlearned)
            self._unlearned = ()
        if strategy not in self._known:
            space = self._space
            self._known[strategy] = bottleneck(space.model, space.cluster, strategy, self._closed_form.coefficients)
        found = self._known[strategy]
        return self._space.relieve(strategy, found.shares, found.servers, rng)
