"""What repeats tell of the noise: how sure one trial's median is, and how well anything could predict it."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from autosync.simulator.evaluation.metrics import Forecasts

__all__ = ["best_possible_accuracy", "best_possible_error", "second_look"]

FloatArray = npt.NDArray[np.float64]


def second_look(first: FloatArray, second: FloatArray, deviation: float) -> Forecasts:
    """Second trials (r,) as if they were predictions of the first: as good as measuring is."""
    return Forecasts(second, first, np.full(len(first), deviation))


def best_possible_accuracy(agreement: float) -> float:
    """The pairwise accuracy that perfect knowledge has at most, from the share of pairs in whose order repeats agree.

    If a measured pair is in its true order with probability p, two measurements agree with p^2 + (1 - p)^2, so
    (2p - 1)^2 = 2a - 1 for one pair; over pairs, the mean of 2p - 1 is at most the root of its mean square.
    """
    return (1 + math.sqrt(max(2 * agreement - 1, 0.0))) / 2


def best_possible_error(repeat_error: float) -> float:
    """The MAPE that perfect knowledge has, from that of second trials: one measurement errs in place of two."""
    return repeat_error / math.sqrt(2)
