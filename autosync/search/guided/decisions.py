"""The similarity of strategies: of the decisions on each variable, and of the traffic of all decisions together."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt

from autosync.numeric import FloatArray
from autosync.spec import AllReduce, ModelSpec, Strategy

TRAFFIC_LENGTH = 0.5


@final
@dataclass(frozen=True)
class Decisions:
    """Strategies as numbers."""

    codes: npt.NDArray[np.int32]
    """int32 (n, variables): equal numbers for equal decisions on a variable."""
    traffic: FloatArray
    """float64 (n, 5), each about 0 to 1: the all-reduced share of the gradient bytes, the number of buckets (log
    scale), the share of the bytes on the busiest server, the number of shards on servers (log scale), and 1 if steps
    overlap with the next forward pass, else 0.
    """

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: slice | npt.NDArray[np.bool_ | np.intp]) -> Decisions:
        return Decisions(self.codes[rows], self.traffic[rows])

    @classmethod
    def concatenate(cls, parts: Sequence[Decisions]) -> Decisions:
        return cls(np.concatenate([part.codes for part in parts]), np.concatenate([part.traffic for part in parts]))


@final
class DecisionCoder:
    """Numbers the decisions on one model's variables.

    The first variable of a bucket identifies its all-reduced shards. So renumbering buckets changes no code, and
    splitting a bucket changes only the codes of the split-off part.
    """

    def __init__(self, model: ModelSpec) -> None:
        self._model = model
        self._numbers: dict[Hashable, int] = {}
        gradient_bytes = np.array([variable.gradient_bytes for variable in model.variables], np.float64)
        self._share: list[float] = (gradient_bytes / gradient_bytes.sum()).tolist()
        # Half by bytes, which determine bandwidth; half by count, because every small variable also costs messages.
        self._weights: FloatArray = 0.5 * np.array(self._share) + 0.5 / len(self._share)

    def decisions(self, strategies: Sequence[Strategy]) -> Decisions:
        rows = [self._row(strategy) for strategy in strategies]
        variables = len(self._share)
        return Decisions(
            np.array([codes for codes, _ in rows], np.int32).reshape(-1, variables),
            np.array([traffic for _, traffic in rows], np.float64).reshape(-1, 5),
        )

    def kernel(self, first: Decisions, second: Decisions, length: float) -> FloatArray:
        """Return the similarity, float64 (first, second), 1 for equal decisions; a positive definite kernel.

        Half of the similarity comes from the weighted share of variables with different decisions, relative to
        `length`; half comes from the traffic.
        """
        apart = np.array([(second.codes != row) @ self._weights for row in first.codes]).reshape(-1, len(second))
        squares = ((first.traffic[:, None, :] - second.traffic[None, :, :]) ** 2).sum(-1)
        likeness: FloatArray = 0.5 * np.exp(-apart / length) + 0.5 * np.exp(-squares / (2 * TRAFFIC_LENGTH**2))
        return likeness

    def _row(self, strategy: Strategy) -> tuple[list[int], list[float]]:
        leaders: dict[int, int] = {}
        loads: dict[str, float] = {}
        served_shards, reduced = 0, 0.0
        codes = []
        for index, (variable, share) in enumerate(zip(self._model.variables, self._share, strict=True)):
            decision = strategy.by_name[variable.name]
            part = share / len(decision.shards)
            shards: list[Hashable] = []
            if not decision.reductions:
                served_shards += len(decision.shards)
                for device in decision.devices:
                    loads[device] = loads.get(device, 0.0) + part
                codes.append(self._numbers.setdefault(decision, len(self._numbers)))
                continue
            for shard in decision.shards:
                if isinstance(shard, AllReduce):
                    reduced += part
                    shards.append((leaders.setdefault(shard.group, index), shard.algorithm, shard.compressor))
                else:
                    served_shards += 1
                    loads[shard.device] = loads.get(shard.device, 0.0) + part
                    shards.append((shard.device, shard.local_copy, shard.compressor, shard.staleness))
            cut = decision.partition
            key = (cut.axis if cut else None, decision.rows_apart, *shards)
            codes.append(self._numbers.setdefault(key, len(self._numbers)))
        scale = math.log1p(len(codes))
        busiest = max(loads.values(), default=0.0)
        served, overlap = math.log1p(served_shards) / scale, float(strategy.overlap_next_forward)
        return codes, [reduced, math.log1p(len(leaders)) / scale, busiest, served, overlap]
