"""How far apart two strategies are: the weighted share of variables that they decide differently."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import final

import numpy as np
import numpy.typing as npt

from autosync.spec import DTYPE_BYTES, AllReduce, ModelSpec, Strategy, Variable

__all__ = ["DecisionCoder"]

Codes = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]


@final
class DecisionCoder:
    """Numbers each variable's decision, so that strategies are compared as rows of integers.

    An all-reduced shard is known by the first variable of its bucket, so that renumbering buckets changes nothing and
    splitting one changes the split-off part only.
    """

    def __init__(self, model: ModelSpec) -> None:
        self._model = model
        self._numbers: dict[Hashable, int] = {}
        gradient_bytes = np.array([_gradient_bytes(variable) for variable in model.variables])
        # Half by bytes, which decide bandwidth; half by count, since every small variable costs messages too.
        self.weights: Floats = 0.5 * gradient_bytes / gradient_bytes.sum() + 0.5 / len(gradient_bytes)

    def codes(self, strategies: Sequence[Strategy]) -> Codes:
        """int32 (strategies, variables): equal numbers for equal decisions."""
        return np.array([self._row(each) for each in strategies], np.int32).reshape(-1, len(self._model.variables))

    def distances(self, first: Codes, second: Codes) -> Floats:
        """float64 (rows of first, rows of second): from 0, the same, to 1, every variable decided differently."""
        rows = [(second != row) @ self.weights for row in first]
        return np.array(rows, np.float64).reshape(len(first), len(second))

    def _row(self, strategy: Strategy) -> list[int]:
        leaders: dict[int, int] = {}
        row = []
        for index, variable in enumerate(self._model.variables):
            decision = strategy.by_name[variable.name]
            shards = tuple(
                leaders.setdefault(shard.group, index)
                if isinstance(shard, AllReduce)
                else (shard.device, shard.local_copy)
                for shard in decision.shards
            )
            cut = (decision.partition.axis, decision.partition.shards) if decision.partition else None
            row.append(self._numbers.setdefault((cut, shards), len(self._numbers)))
        return row


def _gradient_bytes(variable: Variable) -> float:
    if variable.rows_per_step is None:
        return variable.bytes
    return variable.rows_per_step * variable.row_elements * DTYPE_BYTES[variable.dtype]
