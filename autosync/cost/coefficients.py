"""The few physical coefficients that the closed form of a step needs beside the cluster's figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from autosync.cost.coefficient_checks import check_coefficients, numbers_of

__all__ = ["Coefficients"]


@dataclass(frozen=True)
class Coefficients:
    """Costs of computing and of handling messages; defaults are assumptions for a common CPU and TensorFlow's gRPC.

    `core_seconds_...` are spent on a node's cores, which all its processes share: a node of 4 cores does 4
    core-seconds a second. Messages and bytes count at both ends. A reduced byte is a gradient byte read to be added,
    or a value (or slot) byte updated. `overlap` is how much of what could happen at the same time does (0 none, 1 all).
    """

    step_overhead_seconds: float = 5e-3
    core_seconds_per_flop: float = 1e-10
    gpu_seconds_per_flop: float = 2e-13
    core_seconds_per_message: float = 1e-4
    core_seconds_per_byte: float = 1e-9
    core_seconds_per_reduced_byte: float = 3e-10
    overlap: float = 0.5

    def __post_init__(self) -> None:
        check_coefficients(self, shares=("overlap",))

    def to_json(self) -> dict[str, float]:
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Coefficients:
        return cls(**numbers_of(cls, document, "Coefficients"))
