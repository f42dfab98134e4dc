"""How much steps of one trial, and trials of one strategy, differ among themselves.

All in log seconds, so that a deviation of 0.05 is about 5 % of a step. Between trials: with T_s timings of strategy s,
trials or turns of the finals, and d_s^2 the variance of the logarithms of their medians,

    d^2 = sum_s (T_s - 1) d_s^2 / n,   n = sum_s (T_s - 1),

and n d^2 / sigma^2 is chi-square of n degrees of freedom, which gives the interval. It holds what is left of the noise
within trials, and any drift.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2

from autosync.spec import RuntimeRecord


@dataclass(frozen=True)
class Noise:
    """Standard deviations in log seconds. `within` is the median over `trials`; None where too little was repeated.

    `between` is over `timings` of `strategies` that have several, with its 95 % `interval`.
    """

    within: float | None
    trials: int
    between: float | None
    interval: tuple[float, float] | None
    strategies: int
    timings: int


def noise_of(trials: Sequence[RuntimeRecord], timings: Sequence[RuntimeRecord]) -> Noise:
    """The noise within complete `trials`, and between complete `timings` of the same strategies."""
    complete = [each for each in trials if each.outcome == "ok" and len(each.step_seconds) > 1]
    deviations = [_deviation(each.step_seconds) for each in complete]
    medians: dict[str, list[float]] = {}
    for each in timings:
        if each.outcome == "ok" and each.median_seconds is not None:
            medians.setdefault(each.strategy.digest, []).append(each.median_seconds)
    repeated = [values for values in medians.values() if len(values) > 1]
    freedom = sum(len(values) - 1 for values in repeated)
    between, interval = None, None
    if freedom:
        squares = sum((len(values) - 1) * _deviation(values) ** 2 for values in repeated)
        between = math.sqrt(squares / freedom)
        low, high = (math.sqrt(squares / float(chi2.ppf(tail, freedom))) for tail in (0.975, 0.025))
        interval = low, high
    return Noise(
        within=statistics.median(deviations) if deviations else None,
        trials=len(deviations),
        between=between,
        interval=interval,
        strategies=len(repeated),
        timings=sum(map(len, repeated)),
    )


def _deviation(seconds: Sequence[float]) -> float:
    return statistics.stdev(map(math.log, seconds))


NORMAL_MEDIAN = 1.4826
"""The standard deviation of normal errors over the median of their absolute values."""

MEDIAN_OVER_MEAN_ERROR = 1.2533
"""The standard error of a median over that of a mean, for normal errors: sqrt(pi / 2)."""

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
    errors = [error_of_median(steps) for steps in trials if len(steps) > 1]
    return max(statistics.median(errors), LEAST_DEVIATION) if errors else LEAST_DEVIATION


def error_of_median(step_seconds: Sequence[float]) -> float:
    """The standard error of the logarithm of the median of two steps or more."""
    spread: float = statistics.stdev(np.log(step_seconds).tolist())
    return MEDIAN_OVER_MEAN_ERROR * spread / math.sqrt(len(step_seconds))


def robust_error_of_median(step_seconds: Sequence[float]) -> float:
    """The same by the steps' spread about the median, which a few outliers do not move; 0 of a single step."""
    steps = np.log(np.array(step_seconds))
    deviation = NORMAL_MEDIAN * float(np.median(np.abs(steps - np.median(steps))))
    return MEDIAN_OVER_MEAN_ERROR * deviation / math.sqrt(len(steps))
