"""What every simulator of step time offers, closed-form or learned."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, Strategy

FloatArray = npt.NDArray[np.float64]


class Simulator(Protocol):
    """Predicts how long a step takes, without running it."""

    def predict(self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]) -> FloatArray:
        """Natural logarithm of each strategy's step seconds, float64 of shape (n,); lower is faster."""
        ...

    def fit(self, records: Sequence[RuntimeRecord], weights: Sequence[float] | None = None) -> None:
        """Learn from `records`, all of them each time; records without a step time are passed over.

        A record of weight w, 1 unless given, counts as one whose error has 1 / w times the variance.
        """
        ...


@runtime_checkable
class Restorable(Protocol):
    """A simulator whose knowledge is a JSON object: restored into another one, it gives the same numbers."""

    def state(self) -> dict[str, Any]: ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over a `state`. Raises `SpecError` when it is not one."""
        ...


@runtime_checkable
class Unsure(Protocol):
    """A simulator that says how far its predictions may be off."""

    def predict_with_spread(
        self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]
    ) -> tuple[FloatArray, FloatArray | None]:
        """What `predict` gives, and the standard deviation of each, in log seconds, float64 (n,) too.

        None in place of the deviations if it predicts by another simulator that does not say.
        """
        ...


def with_spread(
    simulator: Simulator, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]
) -> tuple[FloatArray, FloatArray | None]:
    """Log step seconds (n,), and the standard deviation of each, (n,), where the simulator says."""
    if isinstance(simulator, Unsure):
        return simulator.predict_with_spread(model, cluster, strategies)
    return simulator.predict(model, cluster, strategies), None
