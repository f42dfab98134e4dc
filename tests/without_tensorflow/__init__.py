"""autosync where the extra `tensorflow` is not installed: PyTorch works, and all else is refused in one sentence."""

import os
import platform
from pathlib import Path

WITHHELD = Path(__file__).parent / "withheld"
"""The folder whose `sitecustomize.py` hides the packages of the extra."""

REFUSAL = (
    f"Framework 'tensorflow' needs tensorflow and keras, which are not installed on {platform.node()}; run `pip "
    "install 'autosync-dp[tensorflow]'` there, or use a PyTorch model (docs/pytorch.md)."
)


def path_without_tensorflow() -> str:
    """Return the value of PYTHONPATH with which a process and its children lack the packages of the extra."""
    return os.pathsep.join([str(WITHHELD), os.environ["PYTHONPATH"]])
