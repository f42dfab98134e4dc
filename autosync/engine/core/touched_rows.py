"""The rows of a sparse variable that the batches of a step touch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

SAMPLED_BATCHES = 4
"""The batches whose rows are counted."""


class TouchedRows(NamedTuple):
    """The numbers of distinct rows of a variable in the batches of one replica and of two replicas together."""

    one: float
    two: float | None = None
    """None if it is not known."""


def mean_rows(of_batches: Sequence[npt.NDArray[Any]]) -> TouchedRows:
    """The means over batches, and over pairs of them. An array has the distinct row numbers of a batch, (n,)."""
    pairs = zip(of_batches, [*of_batches[1:], of_batches[0]], strict=True)
    one = float(np.mean([len(rows) for rows in of_batches]))
    return TouchedRows(one, float(np.mean([len(np.union1d(*pair)) for pair in pairs])))
