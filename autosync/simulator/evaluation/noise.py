"""What repeats tell of the noise: how sure one trial's median is, and how well anything could predict it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from autosync.simulator.evaluation.metrics import Forecasts

__all__ = ["best_possible_accuracy", "best_possible_error", "deviation_of_repeats", "deviation_of_steps", "second_look"]

FloatArray = npt.NDArray[np.float64]

NORMAL_MEDIAN = 1.4826
"""The standard deviation of normal errors over the median of their absolute values."""
MEDIAN_OVER_MEAN_ERROR = 1.2533
LEAST_DEVIATION = 0.005


def deviation_of_repeats(ratios: Sequence[float]) -> float:
    """Standard deviation of the log of one trial's median, from log-ratios of two trials each.

    It follows from the median of the absolute ratios, over sqrt(2) since both trials err, so that a few trials on a
    busy machine do not make all others ties.
    """
    typical = NORMAL_MEDIAN * statistics.median(abs(each) for each in ratios) / math.sqrt(2)
    return max(typical, LEAST_DEVIATION)


def deviation_of_steps(trials: Sequence[Sequence[float]]) -> float:
    """The same where nothing was repeated, from the steps within trials: too small, since drift between trials adds."""
    errors = [
        MEDIAN_OVER_MEAN_ERROR * statistics.stdev(np.log(steps).tolist()) / math.sqrt(len(steps))
        for steps in trials
        if len(steps) > 1
    ]
    return max(statistics.median(errors), LEAST_DEVIATION) if errors else LEAST_DEVIATION


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
