"""The settings of PyTorch's DistributedDataParallel, for a strategy that DDP itself carries out.

DDP decides no variable alone: it takes a cap on the size of buckets, and fills the buckets in the order in which
gradients become ready. Such a strategy has these settings, and its variables state the buckets that follow from them,
as all-reduces by the framework's own collective. So simulators, records, reports and words read it like any other. A
rank compares the stated buckets with the buckets that DDP made.
"""

import math
from dataclasses import dataclass
from typing import Any, final

from autosync.errors import SpecError
from autosync.spec.codec import Noun
from autosync.spec.quoting import quote

MEBIBYTE = 1 << 20
"""PyTorch and Horovod count bucket sizes in units of 1 048 576 bytes."""

DEFAULT_CAPS_MB = (1.0, 25.0)
"""DDP's caps without `bucket_cap_mb`: a small first bucket, so that communication starts early. See Li et al., "PyTorch
Distributed: Experiences on Accelerating Data Parallel Training", VLDB 2020."""


@final
@dataclass(frozen=True)
class DDPSettings(Noun, what="The settings of DistributedDataParallel", partial=True):
    """Arguments of `torch.nn.parallel.DistributedDataParallel`, and the optimizer that goes with it."""

    bucket_cap_mb: tuple[float, ...] = ()
    """The caps of the first, second, ... bucket of a dtype in MiB; the last one also caps all further buckets. A bucket
    closes once it reaches its cap. Empty for DDP's default; several caps are its `bucket_cap_mb_list`."""
    gradient_as_bucket_view: bool = False
    static_graph: bool = False
    zero_redundancy_optimizer: bool = False
    """Whether `torch.distributed.optim.ZeroRedundancyOptimizer` wraps the optimizer: each rank updates a share of the
    parameters and broadcasts them at the end of the step."""
    parameters_as_bucket_view: bool = False
    """Its argument: each rank broadcasts its share in one message, and not parameter by parameter."""

    def __post_init__(self) -> None:
        if not all(math.isfinite(cap) and cap * MEBIBYTE >= 1 for cap in self.bucket_cap_mb):
            raise SpecError(f"Bucket caps are sizes in MiB of at least a byte, not {quote(list(self.bucket_cap_mb))}.")
        if self.parameters_as_bucket_view and not self.zero_redundancy_optimizer:
            raise SpecError("parameters_as_bucket_view is an argument of zero_redundancy_optimizer; set both.")

    @property
    def cap_bytes(self) -> tuple[int, ...]:
        """The caps in bytes, rounded as by DDP."""
        return tuple(int(cap * MEBIBYTE) for cap in self.bucket_cap_mb or DEFAULT_CAPS_MB)

    def is_full(self, index: int, held_bytes: int) -> bool:
        """Whether bucket number `index` of a dtype takes no more gradients once it has `held_bytes`."""
        caps = self.cap_bytes
        return held_bytes >= caps[min(index, len(caps) - 1)]

    @property
    def arguments(self) -> dict[str, Any]:
        """Keyword arguments of DistributedDataParallel; defaults are left out."""
        caps: dict[str, Any] = {}
        if len(self.bucket_cap_mb) == 1:
            caps = {"bucket_cap_mb": self.bucket_cap_mb[0]}
        elif self.bucket_cap_mb:
            caps = {"bucket_cap_mb_list": list(self.bucket_cap_mb)}
        switches = ("gradient_as_bucket_view", "static_graph")
        return caps | {name: True for name in switches if getattr(self, name)}

    @property
    def optimizer_arguments(self) -> dict[str, Any]:
        """Keyword arguments of ZeroRedundancyOptimizer; defaults are left out."""
        return {"parameters_as_bucket_view": True} if self.parameters_as_bucket_view else {}

    @property
    def in_words(self) -> str:
        """The calls' arguments, such as "bucket_cap_mb=25, static_graph=True"; "default settings" without any."""
        words = ", ".join(f"{name}={_short(value)}" for name, value in self.arguments.items()) or "default settings"
        if not self.zero_redundancy_optimizer:
            return words
        more = ", ".join(f"{name}={value}" for name, value in self.optimizer_arguments.items())
        return f"{words} and ZeroRedundancyOptimizer({more})"


def _short(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_short, value))}]"
    return str(value) if isinstance(value, bool) else f"{value:.4g}"
