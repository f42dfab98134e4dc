"""What is computed in while a profile is measured."""

from dataclasses import dataclass
from typing import Any

from autosync.errors import ModelError


@dataclass(frozen=True)
class Precision:
    """`policy` is Keras's dtype policy, `tf32` whether float32 products may round their factors to TF32's 10 bits.

    `least` is the lowest compute capability of NVIDIA GPUs that have it, None where a CPU has it too.
    """

    words: str
    policy: str = "float32"
    tf32: bool = False
    least: tuple[int, int] | None = None


PRECISIONS = {
    "float32": Precision("float32, TF32 off"),
    "tf32": Precision("float32, TF32 on", tf32=True, least=(8, 0)),
    "bfloat16": Precision("bfloat16 mixed with float32, TF32 off", policy="mixed_bfloat16"),
}


def set_precision(precision: Precision) -> None:
    """Let this process's PyTorch compute in `precision`, in matrix products and in convolutions."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = precision.tf32
    torch.backends.cudnn.allow_tf32 = precision.tf32  # which PyTorch has on unless told otherwise


def check_precision(name: str, device: Any) -> None:
    """Raise `ModelError` where `device` does not compute in the precision called `name`."""
    import torch

    least = PRECISIONS[name].least
    if least is None:
        return
    if device.type != "cuda" or torch.cuda.get_device_capability(device) < least:
        raise ModelError(
            f"--precision {name} is computed by NVIDIA GPUs of compute capability {least[0]}.{least[1]} and later, "
            "which this device is not; choose float32."
        )
