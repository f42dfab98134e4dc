"""A simulator over a pool: what it foretells of all members is worked out once a fit, and fits are few."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from typing import TypeAlias, final

import numpy as np
import numpy.typing as npt

from autosync.cost import Simulator
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, Strategy
from autosync.spec.codec import digest

__all__ = ["GROWTH", "Memory", "PooledSimulator"]

Floats = npt.NDArray[np.float64]

Memory: TypeAlias = MutableMapping[str, Floats]
"""What was foretold of the members, by the name of the simulator and the records that it was fitted to."""

GROWTH, NEW = 2, 8
"""There is another fit once there are so many times the records of the last one, and so many more. A search learns from
every record all the same: by what strategies alike have missed their forecasts."""


@final
class PooledSimulator:
    """Foretells `members`, and nothing else, as the simulator of `make` does, which goes by `named` in `memory`.

    Many searches on a pool come to the same records, as after the baselines; who shares the memory shares the fit.
    """

    def __init__(self, named: str, make: Callable[[], Simulator], members: Sequence[Strategy], memory: Memory) -> None:
        self._named = named
        self._make = make
        self._members = members
        self._memory = memory
        self._places = {each.digest: place for place, each in enumerate(members)}
        self._learned: list[RuntimeRecord] = []
        self._foretold: Floats | None = None

    def predict(self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]) -> Floats:
        """Log step seconds (n,). Raises `KeyError` for a strategy that is no member."""
        if self._foretold is None:
            key = digest([self._named, [_key(each) for each in self._learned]])
            if key not in self._memory:
                self._memory[key] = self._worked_out(model, cluster)
            self._foretold = self._memory[key]
        return self._foretold[[self._places[each.digest] for each in strategies]]

    def fit(self, records: Sequence[RuntimeRecord], weights: Sequence[float] | None = None) -> None:
        """Take note of `records`, if there are enough new ones; in whatever order they come."""
        assert weights is None, "all records of a replayed search count alike"
        timed = sorted((each for each in records if each.timed), key=_key)
        if len(timed) >= GROWTH * len(self._learned) + NEW:
            self._learned, self._foretold = timed, None

    def _worked_out(self, model: ModelSpec, cluster: ClusterSpec) -> Floats:
        simulator = self._make()
        if self._learned:
            simulator.fit(self._learned)
        return simulator.predict(model, cluster, self._members)


def _key(record: RuntimeRecord) -> tuple[str, tuple[float, ...]]:
    return record.strategy.digest, record.step_seconds
