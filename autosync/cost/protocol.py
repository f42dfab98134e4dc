"""What every simulator of step time offers, closed-form or learned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, Strategy

__all__ = ["Simulator"]


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
