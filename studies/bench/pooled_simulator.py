"""A simulator over a pool: predicts all members at once after each fit, and fits rarely."""

from collections.abc import Callable, MutableMapping, Sequence
from typing import TypeAlias, final

from autosync.cost import Simulator, with_spread
from autosync.numeric import FloatArray
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, Strategy, digest

Predicted: TypeAlias = tuple[FloatArray, FloatArray | None]
"""Predicted log step seconds of all members, and their standard deviations if the simulator has them."""

PredictionMemory: TypeAlias = MutableMapping[str, Predicted]
"""Predictions for the members, by the simulator's name and the records that the simulator was fitted to."""

GROWTH, NEW = 2, 8
"""The next fit needs `GROWTH` times the records of the last fit plus `NEW`. Between fits a search still learns from
every record, by the errors of the predictions for similar strategies."""


@final
class PooledSimulator:
    """Predicts only `members`, by the simulator that `make` returns; `named` is the simulator's name in `memory`.

    Many searches on a pool have the same records, for example after the first baselines. If they share the memory, they
    share the fit.
    """

    def __init__(
        self, named: str, make: Callable[[], Simulator], members: Sequence[Strategy], memory: PredictionMemory
    ) -> None:
        self._named = named
        self._make = make
        self._members = members
        self._memory = memory
        self._places = {strategy.digest: place for place, strategy in enumerate(members)}
        self._learned: list[RuntimeRecord] = []
        self._predicted: Predicted | None = None

    def predict(self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]) -> FloatArray:
        """Return log step seconds (n,). Raises `KeyError` if a strategy is no member."""
        return self.predict_with_spread(model, cluster, strategies)[0]

    def predict_with_spread(self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]) -> Predicted:
        """Return the predictions of `predict`, and standard deviations (n,) if the simulator has them."""
        if self._predicted is None:
            key = digest([self._named, [_key(record) for record in self._learned]])
            if key not in self._memory:
                self._memory[key] = self._predict_members(model, cluster)
            self._predicted = self._memory[key]
        mean, spread = self._predicted
        places = [self._places[strategy.digest] for strategy in strategies]
        return mean[places], None if spread is None else spread[places]

    def fit(self, records: Sequence[RuntimeRecord], weights: Sequence[float] | None = None) -> None:
        """Keep `records`, in any order, for the next fit if there are enough new ones."""
        assert weights is None, "all records of a replayed search count alike"
        timed = sorted((record for record in records if record.timed), key=_key)
        if len(timed) >= GROWTH * len(self._learned) + NEW:
            self._learned, self._predicted = timed, None

    def _predict_members(self, model: ModelSpec, cluster: ClusterSpec) -> Predicted:
        simulator = self._make()
        if self._learned:
            simulator.fit(self._learned)
        return with_spread(simulator, model, cluster, self._members)


def _key(record: RuntimeRecord) -> tuple[str, tuple[float, ...]]:
    return record.strategy.digest, record.step_seconds
