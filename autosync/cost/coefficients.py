"""The few physical coefficients that the closed form and the replay need beside the cluster's figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from autosync.errors import SpecError
from autosync.spec.codec import Noun

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def check_coefficients(coefficients: DataclassInstance, shares: Sequence[str]) -> None:
    """Raise `SpecError` when a coefficient is negative or not finite, or when one of `shares` is over 1."""
    for name, value in asdict(coefficients).items():
        if not (math.isfinite(value) and value >= 0):
            raise SpecError(f"Coefficient {name} must be a number of at least 0, not {value!r}.")
        if name in shares and value > 1:
            raise SpecError(f"Coefficient {name} is a share between 0 and 1, not {value!r}.")


@dataclass(frozen=True)
class Coefficients(Noun, what="Coefficients"):
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
    overlap: float = 0.75

    def __post_init__(self) -> None:
        check_coefficients(self, shares=("overlap",))


MESSAGE_ALONE = 0.4
"""What a message costs processors that compute no pass, as a share of `core_seconds_per_message`, whose default makes
0.5 core-milliseconds of it, both ends. Four replicas on two processors took 0.19 to 0.21 with paced passes, and 0.37
with real ones (`tests.by_hand.bench_processors`)."""
SHARES = ("overlap",)
NOT_OF_CORES = ("gpu_seconds_per_flop", "link_overhead")
"""Coefficients that a faster processor leaves as they are."""


@dataclass(frozen=True)
class ReplayCoefficients(Noun, what="Replay coefficients"):
    """Costs of computing and of handling messages; defaults are assumptions for a common CPU and TensorFlow's gRPC.

    `core_seconds_...` are spent on a node's cores, which all its processes share. Messages and bytes (copied between an
    array and the network) count at both ends, reduced bytes where gradients are added, updated bytes where values and
    optimizer slots are written, shards on every replica, for the operations that cut and join them. A measured
    profile's times are multiplied with `profile_scale`.

    `overlap` says how early a gradient that is ready at a fraction p of the backward pass sets out: at
    1 - overlap (1 - p), so 0 is after the pass. One of a paced pass is released, and sets out, at p. A link takes
    `link_overhead` longer, as a share, than its bytes at its measured rate: for headers, and for pauses between the
    messages of an exchange that a probe's streams do not have.
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
