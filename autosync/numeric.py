"""Type aliases for arrays."""

from typing import Any

import numpy as np
import numpy.typing as npt

BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float64]
IndexArray = npt.NDArray[np.intp]
IntArray = npt.NDArray[np.int64]
AnyArray = npt.NDArray[Any]
