"""The replay and the closed form together: each errs in its own way, so their mean errs less than either."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from types import MappingProxyType
from typing import Any, final

import numpy as np
import numpy.typing as npt

from autosync.cost.closed_form.analytic import AnalyticSimulator
from autosync.cost.coefficients import Coefficients, ReplayCoefficients
from autosync.cost.replay import Replay
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, Strategy

FloatArray = npt.NDArray[np.float64]

OF_CORES = tuple(name for name in asdict(ReplayCoefficients()) if name.startswith("core_seconds_per_"))


@final
class Blended:
    """Predicts the mean of what a replay and the closed form say, in log seconds.

    The replay alone is fitted, and the closed form follows it in how fast processors are. Fitted by itself, it ranks
    worse on clusters that it was not fitted on.
    """

    def __init__(self) -> None:
        self.replay = Replay()

    @property
    def closed_form(self) -> AnalyticSimulator:
        """The closed form for processors as fast as the replay's: all its costs of theirs in the same proportion."""
        found, usual, own = self.replay.coefficients, ReplayCoefficients(), Coefficients()
        ratios = [max(getattr(found, name), 1e-15) / getattr(usual, name) for name in OF_CORES]
        slower = float(np.exp(np.mean(np.log(ratios))))
        of_processors = [name for name in asdict(own) if name.startswith(("core_", "step_"))]
        return AnalyticSimulator(replace(own, **{name: slower * getattr(own, name) for name in of_processors}))

    def predict(self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]) -> FloatArray:
        """Log step seconds (n,). Raises `SpecError` when a strategy does not fit the model and the cluster, or has a
        discipline.
        """
        return self.with_replayed(self.replay.predict(model, cluster, strategies), model, cluster, strategies)

    def with_replayed(
        self, replayed: FloatArray, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]
    ) -> FloatArray:
        """What `predict` gives, where the replay's log seconds (n,) are known already."""
        return (replayed + self.closed_form.predict(model, cluster, strategies)) / 2

    def fit(self, records: Sequence[RuntimeRecord], weights: Sequence[float] | None = None) -> None:
        self.replay.fit(records, weights)

    def go_on(self) -> None:
        """Take what was fitted for the prior of the next fit."""
        self.replay.go_on()

    def state(self) -> dict[str, Any]:
        return self.replay.state()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what `state` gave. Raises `SpecError` when it is something else."""
        self.replay.restore(state)


BASES: Mapping[str, type[AnalyticSimulator] | type[Replay] | type[Blended]] = MappingProxyType(
    {"analytic": AnalyticSimulator, "replay": Replay, "blended": Blended}
)
"""What a learned simulator can correct, by the name that checkpoints know it by."""
