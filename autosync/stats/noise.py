"""The noise of step times: deviations within a trial and between trials of the same strategy.

All deviations are in log seconds, so that 0.05 is about 5 % of a step. Between trials: with T_s timings of strategy s
(trials or turns of the finals) and d_s^2 the variance of the logarithms of their medians,

    d^2 = sum_s (T_s - 1) d_s^2 / n,   n = sum_s (T_s - 1),

and n d^2 / sigma^2 has a chi-square distribution of n degrees of freedom, which gives the interval. d includes the rest
of the noise within trials that the median leaves, and drift.
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
    """Standard deviations of step times in log seconds."""

    within: float | None
    """Median deviation of steps within `trials`; None without a trial of several steps."""
    trials: int
    """Number of trials behind `within`."""
    between: float | None
    """Deviation between timings of the same strategy; None without repeated timings."""
    interval: tuple[float, float] | None
    """95 % interval of `between`."""
    strategies: int
    """Number of strategies behind `between`, each with several timings."""
    timings: int
    """Number of timings behind `between`."""


def noise_of(trials: Sequence[RuntimeRecord], timings: Sequence[RuntimeRecord]) -> Noise:
    """The noise within complete `trials`, and between complete `timings` of the same strategies."""
    complete = [record for record in trials if record.outcome == "ok" and len(record.step_seconds) > 1]
    deviations = [_deviation(record.step_seconds) for record in complete]
    medians: dict[str, list[float]] = {}
    for record in timings:
        if record.outcome == "ok" and record.median_seconds is not None:
            medians.setdefault(record.strategy.digest, []).append(record.median_seconds)
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
    """Standard deviation of the log of one trial's median, from log-ratios of pairs of trials.

    The estimate uses the median of the absolute ratios, so that a few trials on a busy machine do not inflate it. It
    divides by sqrt(2), because both trials of a pair have errors.
    """
    typical = NORMAL_MEDIAN * statistics.median(abs(ratio) for ratio in ratios) / math.sqrt(2)
    return max(typical, LEAST_DEVIATION)


def deviation_of_steps(trials: Sequence[Sequence[float]]) -> float:
    """The same deviation without repeats, from the steps within trials. It is too small, because drift between trials
    is missing."""
    errors = [error_of_median(steps) for steps in trials if len(steps) > 1]
    return max(statistics.median(errors), LEAST_DEVIATION) if errors else LEAST_DEVIATION


def error_of_median(step_seconds: Sequence[float]) -> float:
    """The standard error of the logarithm of the median of two steps or more."""
    spread: float = statistics.stdev(np.log(step_seconds).tolist())
    return MEDIAN_OVER_MEAN_ERROR * spread / math.sqrt(len(step_seconds))


def robust_error_of_median(step_seconds: Sequence[float]) -> float:
    """The same standard error from the median absolute deviation of the steps, robust to outliers; 0 for one step."""
    steps = np.log(np.array(step_seconds))
    deviation = NORMAL_MEDIAN * float(np.median(np.abs(steps - np.median(steps))))
    return MEDIAN_OVER_MEAN_ERROR * deviation / math.sqrt(len(steps))
