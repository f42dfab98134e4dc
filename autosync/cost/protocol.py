"""The protocols of step-time simulators, closed-form or learned."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from autosync.numeric import FloatArray
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, Strategy


class Simulator(Protocol):
    """Predicts the duration of a step without running it."""

    def predict(self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]) -> FloatArray:
        """The natural logarithm of each strategy's step seconds, float64 of shape (n,); lower is faster."""
        ...

    def fit(self, records: Sequence[RuntimeRecord], weights: Sequence[float] | None = None) -> None:
        """Learn from `records`, always the complete set. Records without a step time are skipped.

        A record of weight w (default 1) counts like a record whose error has 1 / w times the variance.
        """
        ...


@runtime_checkable
class Restorable(Protocol):
    """A simulator whose fitted state is a JSON object. Another simulator that restores it predicts the same numbers."""

    def state(self) -> dict[str, Any]: ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state`. Raises `SpecError` if `state` is invalid."""
        ...


@runtime_checkable
class Unsure(Protocol):
    """A simulator that also predicts the error of its predictions."""

    def predict_with_spread(
        self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]
    ) -> tuple[FloatArray, FloatArray | None]:
        """The predictions of `predict`, and their standard deviations in log seconds, both float64 (n,).

        The deviations are None if the simulator delegates to another simulator that does not report them.
        """
        ...


def with_spread(
    simulator: Simulator, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]
) -> tuple[FloatArray, FloatArray | None]:
    """Log step seconds (n,), and their standard deviations (n,), or None if the simulator does not report them."""
    if isinstance(simulator, Unsure):
        return simulator.predict_with_spread(model, cluster, strategies)
    return simulator.predict(model, cluster, strategies), None
