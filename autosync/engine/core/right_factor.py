"""The right factor from which PowerSGD starts, equal in all engines and processes."""

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt

from autosync.layout.shards import Slice
from autosync.spec import PowerSGD


def first_right_factor(part: Slice, compressor: PowerSGD) -> npt.NDArray[Any]:
    """Return Q before the first step, (columns, rank): standard normal, and equal in every process for equal slices."""
    matrix = compressor.matrix(part.shape)
    assert matrix is not None
    seed = hashlib.sha256(f"{part.variable.name} {part.index}".encode()).digest()
    generator = np.random.default_rng(int.from_bytes(seed[:8], "big"))
    return generator.standard_normal((matrix[1], compressor.rank)).astype(part.variable.dtype)
