"""The device on which a profile is measured."""

import platform
from typing import Any

from autosync.errors import ModelError

DEVICES = ("cuda", "cpu")


def find_device(kind: str) -> Any:
    """Return this process's `torch.device` of `kind`, 'cuda' or 'cpu'. Raises `ModelError` if there is none."""
    import torch

    if kind == "cuda" and not torch.cuda.is_available():
        raise ModelError(
            f"A profile is measured on a GPU, but PyTorch {torch.__version__} finds none here; measure on a machine "
            "with a GPU, or pass --device cpu."
        )
    torch.backends.cudnn.benchmark = True  # choose the fastest kernels of a convolution, as training does
    return torch.device(kind, torch.cuda.current_device()) if kind == "cuda" else torch.device(kind)


def device_name(device: Any) -> str:
    """Return the name of `device`, such as 'NVIDIA H100 80GB HBM3'."""
    import torch

    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    return f"CPU {platform.machine()}, {torch.get_num_threads()} threads"


def versions_on(device: Any) -> dict[str, str]:
    """Return the versions of the software that computes on `device`."""
    import torch

    versions = {"torch": str(torch.__version__), "python": platform.python_version()}
    if device.type == "cuda":
        versions |= {"cuda": str(torch.version.cuda), "cudnn": str(torch.backends.cudnn.version())}
    return versions
