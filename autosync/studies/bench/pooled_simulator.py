"""A simulator over a pool: it predicts all members at once after each fit, and fits are few."""

from collections.abc import Callable, MutableMapping, Sequence
from typing import TypeAlias, final

import numpy as np
import numpy.typing as npt

from autosync.cost import Simulator, with_spread
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, Strategy, digest

Floats = npt.NDArray[np.float64]

Predicted: TypeAlias = tuple[Floats, Floats | None]
"""Predicted log step seconds of all members, and how sure the simulator is of each, where it says."""

Memory: TypeAlias = MutableMapping[str, Predicted]
"""Predictions for the members, by the name of the simulator and the records that it was fitted to."""

GROWTH, NEW = 2, 8
"""Another fit takes so many times the records of the last one, and so many more. A search learns from every record all
the same: by how far the predictions for strategies alike were off."""


@final
class PooledSimulator:
    """Predicts `members`, and nothing else, as the simulator of `make` does, which goes by `named` in `memory`.

    Many searches on a pool come to the same records, as after the first baselines; sharing the memory shares the fit.
    """

    def __init__(self, named: str, make: Callable[[], Simulator], members: Sequence[Strategy], memory: Memory) -> None:
        self._named = named
        self._make = make
        self._members = members
        self._memory = memory
        self._places = {each.digest: place for place, each in enumerate(members)}
        self._learned: list[RuntimeRecord] = []
        self._predicted: Predicted | None = None

    def predict(self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]) -> Floats:
        """Log step seconds (n,). Raises `KeyError` for a strategy that is no member."""
        return self.predict_with_spread(model, cluster, strategies)[0]

    def predict_with_spread(self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]) -> Predicted:
        """What `predict` gives, and standard deviations (n,) where the simulator says how sure it is."""
        if self._predicted is None:
            key = digest([self._named, [_key(each) for each in self._learned]])
            if key not in self._memory:
                self._memory[key] = self._worked_out(model, cluster)
            self._predicted = self._memory[key]
        mean, spread = self._predicted
        places = [self._places[each.digest] for each in strategies]
        return mean[places], None if spread is None else spread[places]

    def fit(self, records: Sequence[RuntimeRecord], weights: Sequence[float] | None = None) -> None:
        """Take note of `records`, in whatever order they come, if there are enough new ones."""
        assert weights is None, "all records of a replayed search count alike"
        timed = sorted((each for each in records if each.timed), key=_key)
        if len(timed) >= GROWTH * len(self._learned) + NEW:
            self._learned, self._predicted = timed, None

    def _worked_out(self, model: ModelSpec, cluster: ClusterSpec) -> Predicted:
        simulator = self._make()
        if self._learned:
            simulator.fit(self._learned)
        return with_spread(simulator, model, cluster, self._members)


def _key(record: RuntimeRecord) -> tuple[str, tuple[float, ...]]:
    return record.strategy.digest, record.step_seconds
