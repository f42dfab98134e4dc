"""The physical coefficients that the closed form and the replay need in addition to the cluster's figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from autosync.errors import SpecError
from autosync.spec.codec import Noun

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def check_coefficients(coefficients: DataclassInstance, shares: Sequence[str]) -> None:
    """Raise `SpecError` if a coefficient is negative or not finite, or if a coefficient in `shares` exceeds 1."""
    for name, value in asdict(coefficients).items():
        if not (math.isfinite(value) and value >= 0):
            raise SpecError(f"Coefficient {name} must be a number of at least 0, not {value!r}.")
        if name in shares and value > 1:
            raise SpecError(f"Coefficient {name} is a share between 0 and 1, not {value!r}.")


@dataclass(frozen=True)
class Coefficients(Noun, what="Coefficients"):
    """Costs of computing and of handling messages; defaults are assumptions for a common CPU and TensorFlow's gRPC.

    `core_seconds_...` are spent on a node's cores, which all processes of the node share: a node of 4 cores does 4
    core-seconds a second.
    """

    step_overhead_seconds: float = 5e-3
    core_seconds_per_flop: float = 1e-10
    gpu_seconds_per_flop: float = 2e-13
    core_seconds_per_message: float = 1e-4
    """Messages count at both ends."""

    core_seconds_per_byte: float = 1e-9
    """Bytes count at both ends."""

    core_seconds_per_reduced_byte: float = 3e-10
    """A reduced byte is a gradient byte that is read to be added, or a byte of an updated value or slot."""

    overlap: float = 0.75
    """The share of possible overlap that is achieved (0 none, 1 all)."""

    def __post_init__(self) -> None:
        check_coefficients(self, shares=("overlap",))


MESSAGE_ALONE = 0.4
"""The cost of a message on processors that compute no pass, as a share of `core_seconds_per_message`, whose default is
0.5 core-milliseconds for both ends. Four replicas on two processors took 0.19 to 0.21 core-milliseconds with paced
passes, and 0.37 with real passes (`studies.by_hand.bench_processors`)."""
SHARES = ("overlap",)
NOT_OF_CORES = ("gpu_seconds_per_flop", "link_overhead")
"""Coefficients that do not depend on the processor's speed."""


@dataclass(frozen=True)
class ReplayCoefficients(Noun, what="Replay coefficients"):
    """Costs of computing and of handling messages; defaults are assumptions for a common CPU and TensorFlow's gRPC.

    `core_seconds_...` are spent on a node's cores, which all processes of the node share.
    """

    step_overhead_seconds: float = 5e-3
    core_seconds_per_flop: float = 6e-11
    gpu_seconds_per_flop: float = 2e-13
    core_seconds_per_message: float = 2.5e-4
    """Messages count at both ends."""

    core_seconds_per_byte: float = 1.2e-9
    """Bytes copied between an array and the network; they count at both ends."""

    core_seconds_per_reduced_byte: float = 3e-10
    """Reduced bytes count where gradients are added."""

    core_seconds_per_updated_byte: float = 1e-9
    """Updated bytes count where values and optimizer slots are written."""

    core_seconds_per_shard: float = 1e-4
    """Shards count on every replica, for the operations that cut and join them."""

    profile_scale: float = 1.0
    """The factor of a measured profile's times."""

    overlap: float = 0.5
    """How early gradients are sent: a gradient that is ready at a fraction p of the backward pass is sent at
    1 - overlap (1 - p), so 0 means after the pass. A gradient of a paced pass is released and sent at p."""

    link_overhead: float = 0.1
    """The share by which a link takes longer than its bytes at the measured rate: for headers, and for pauses between
    the messages of an exchange, which a probe's streams do not have."""

    def __post_init__(self) -> None:
        check_coefficients(self, SHARES)


PRIORS: Mapping[str | None, Coefficients] = MappingProxyType({None: Coefficients(), "pytorch": Coefficients()})
"""The closed form's coefficients before any record, by framework as records name it; None is TensorFlow.

`python -m studies.by_hand.fit_coefficients` prints those that fit the records of a folder. PyTorch has TensorFlow's
until they are fitted."""

REPLAY_PRIORS: Mapping[str | None, ReplayCoefficients] = MappingProxyType(
    {None: ReplayCoefficients(), "pytorch": ReplayCoefficients()}
)
"""The same for the replay. A checkpoint scales the closed form by the ratio of the replay's coefficients to these, so
fit the shipped checkpoints again if you change them."""
