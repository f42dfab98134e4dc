"""The precision of the computation while a profile is measured."""

from dataclasses import dataclass
from typing import Any

from autosync.errors import ModelError


@dataclass(frozen=True)
class Precision:
    """A precision of the computation."""

    words: str
    """Its description in a profile."""
    policy: str = "float32"
    """Keras's dtype policy."""
    tf32: bool = False
    """Whether float32 products may round their factors to TF32's 10 bits."""
    least: tuple[int, int] | None = None
    """The lowest compute capability of NVIDIA GPUs with this precision; None if CPUs have it too."""


PRECISIONS = {
    "float32": Precision("float32, TF32 off"),
    "tf32": Precision("float32, TF32 on", tf32=True, least=(8, 0)),
    "bfloat16": Precision("bfloat16 mixed with float32, TF32 off", policy="mixed_bfloat16"),
}


def set_precision(precision: Precision) -> None:
    """Make this process's PyTorch compute in `precision`, in matrix products and in convolutions."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = precision.tf32
    torch.backends.cudnn.allow_tf32 = precision.tf32  # on by default in PyTorch


def check_precision(name: str, device: Any) -> None:
    """Raise `ModelError` if `device` does not support the precision called `name`."""
    import torch

    least = PRECISIONS[name].least
    if least is None:
        return
    if device.type != "cuda" or torch.cuda.get_device_capability(device) < least:
        raise ModelError(
            f"--precision {name} needs an NVIDIA GPU of compute capability {least[0]}.{least[1]} or later, "
            "which this device is not; choose float32."
        )
