"""The few physical coefficients that a replay needs beside the cluster's figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from autosync.cost.coefficient_checks import check_coefficients, numbers_of

__all__ = ["ReplayCoefficients"]

SHARES = ("overlap",)
NOT_OF_CORES = ("gpu_seconds_per_flop", "link_overhead")
"""Coefficients that a faster processor leaves as they are."""


@dataclass(frozen=True)
class ReplayCoefficients:
    """Costs of computing and of handling messages; defaults are assumptions for a common CPU and TensorFlow's gRPC.

    `core_seconds_...` are spent on a node's cores, which all its processes share. Messages and bytes (copied between an
    array and the network) count at both ends, reduced bytes where gradients are added, updated bytes where values and
    optimizer slots are written, shards on every replica, for the operations that cut and join them. A measured
    profile's times are multiplied with `profile_scale`.

    `overlap` says how early a gradient that is ready at a fraction p of the backward pass sets out: at
    1 - overlap (1 - p), so 0 is after the pass. A link takes `link_overhead` longer, as a share, than its bytes at its
    measured rate: for headers, and for pauses between the messages of an exchange that a probe's streams do not have.
    """

    step_overhead_seconds: float = 5e-3
    core_seconds_per_flop: float = 6e-11
    gpu_seconds_per_flop: float = 2e-13
    core_seconds_per_message: float = 2.5e-4
    core_seconds_per_byte: float = 1.2e-9
    core_seconds_per_reduced_byte: float = 3e-10
    core_seconds_per_updated_byte: float = 1e-9
    core_seconds_per_shard: float = 1e-4
    profile_scale: float = 1.0
    overlap: float = 0.5
    link_overhead: float = 0.1

    def __post_init__(self) -> None:
        check_coefficients(self, SHARES)

    def to_json(self) -> dict[str, float]:
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> ReplayCoefficients:
        return cls(**numbers_of(cls, document, "Replay coefficients"))
