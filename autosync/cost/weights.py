"""How much each record counts when a simulator is fitted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from autosync.spec import RuntimeRecord

__all__ = ["heaviest", "timed_and_weighed", "weighted_median"]

FloatArray = npt.NDArray[np.float64]


def timed_and_weighed(
    records: Sequence[RuntimeRecord], weights: Sequence[float] | None
) -> tuple[list[RuntimeRecord], FloatArray]:
    """The records that hold a step time and have a weight over 0, and these weights, 1 unless given, (n,)."""
    given = np.ones(len(records)) if weights is None else np.asarray(weights, dtype=np.float64)
    kept = [place for place, record in enumerate(records) if record.timed and given[place] > 0]
    return [records[place] for place in kept], given[kept]


def heaviest(weights: FloatArray, most: int) -> list[int]:
    """Places of the largest weights, at most so many, in order; of equal ones, where not all fit, evenly spaced."""
    chosen: list[int] = []
    for weight in np.unique(weights)[::-1]:
        alike, room = np.flatnonzero(weights == weight).tolist(), most - len(chosen)
        if len(alike) > room:
            alike = [alike[index * len(alike) // room] for index in range(room)]
        chosen += alike
    return sorted(chosen)


def weighted_median(values: FloatArray, weights: FloatArray) -> float:
    """The value with half of the weight on either side, between two values where it falls there."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order]) - weights[order] / 2
    return float(np.interp(weights.sum() / 2, reached, values[order]))
