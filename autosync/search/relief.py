"""Children of a strategy that take something off the resource its predicted step waits for longest."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import final

from autosync.cost import AnalyticSimulator, Bottleneck, bottleneck
from autosync.cost.protocol import Simulator
from autosync.space import SearchSpace
from autosync.spec import RuntimeRecord, Strategy

__all__ = ["Relief"]


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
