"""What every simulator of step time offers, closed-form or learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, Strategy

__all__ = ["Restorable", "Simulator"]


class Simulator(Protocol):
    """Predicts how long a step takes, without running it."""

    def predict(
        self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]
    ) -> npt.NDArray[np.float64]:
        """Natural logarithm of each strategy's step seconds, float64 of shape (n,); lower is faster."""
        ...

    def fit(self, records: Sequence[RuntimeRecord]) -> None:
        """Learn from `records`, all of them each time; records without a step time are passed over."""
        ...


@runtime_checkable
class Restorable(Protocol):
    """A simulator whose knowledge is a JSON object: restored into another one, it gives the same numbers."""

    def state(self) -> dict[str, Any]: ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over a `state`. Raises `SpecError` when it is not one."""
        ...
