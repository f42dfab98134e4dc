"""The mean of the replay and the closed form. Their errors differ, so the mean has a smaller error than either."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from types import MappingProxyType
from typing import Any, final

import numpy as np

from autosync.cost.closed_form.analytic import AnalyticSimulator
from autosync.cost.coefficients import PRIORS, REPLAY_PRIORS, ReplayCoefficients
from autosync.cost.replay import Replay
from autosync.numeric import FloatArray
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, Strategy

OF_CORES = tuple(name for name in asdict(ReplayCoefficients()) if name.startswith("core_seconds_per_"))


@final
class Blended:
    """Predicts the mean of a replay and the closed form, in log seconds.

    Only the replay is fitted; the closed form adopts the replay's processor speed. A closed form that is fitted by
    itself ranks worse on clusters on which it was not fitted.
    """

    def __init__(self, framework: str | None = None) -> None:
        """`framework` as records name it; it decides the coefficients before any fit."""
        self._framework = framework
        self.replay = Replay(REPLAY_PRIORS[framework])

    @property
    def closed_form(self) -> AnalyticSimulator:
        """The closed form for processors as fast as the replay's: all processor costs are scaled by one factor."""
        fitted, usual, default = self.replay.coefficients, REPLAY_PRIORS[self._framework], PRIORS[self._framework]
        ratios = [max(getattr(fitted, name), 1e-15) / getattr(usual, name) for name in OF_CORES]
        slower = float(np.exp(np.mean(np.log(ratios))))
        of_processors = [name for name in asdict(default) if name.startswith(("core_", "step_"))]
        return AnalyticSimulator(replace(default, **{name: slower * getattr(default, name) for name in of_processors}))

    def predict(self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]) -> FloatArray:
        """Log step seconds (n,). Raises `SpecError` if a strategy does not fit the model and the cluster, or has a
        discipline.
        """
        return self.with_replayed(self.replay.predict(model, cluster, strategies), model, cluster, strategies)

    def with_replayed(
        self, replayed: FloatArray, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]
    ) -> FloatArray:
        """The predictions of `predict`, given the replay's log seconds (n,)."""
        return (replayed + self.closed_form.predict(model, cluster, strategies)) / 2

    def fit(self, records: Sequence[RuntimeRecord], weights: Sequence[float] | None = None) -> None:
        self.replay.fit(records, weights)

    def go_on(self) -> None:
        """Use the fitted coefficients as the prior of the next fit."""
        self.replay.go_on()

    def state(self) -> dict[str, Any]:
        return self.replay.state()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a state of `state()`. Raises `SpecError` if `state` is invalid."""
        self.replay.restore(state)


BASES: Mapping[str, type[AnalyticSimulator] | type[Replay] | type[Blended]] = MappingProxyType(
    {"analytic": AnalyticSimulator, "replay": Replay, "blended": Blended}
)
"""The base simulators that a learned simulator can correct, by their name in checkpoints."""
