"""How much steps of one trial, and trials of one strategy, differ among themselves.

All in log seconds, so that a deviation of 0.05 is about 5 % of a step. Between trials: with T_s turns of finalist s and
d_s^2 the variance of the logarithms of their medians,

    d^2 = sum_s (T_s - 1) d_s^2 / n,   n = sum_s (T_s - 1),

and n d^2 / sigma^2 is chi-square of n degrees of freedom, which gives the interval. It holds what is left of the noise
within trials, and any drift.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.stats import chi2

from autosync.spec import RuntimeRecord

__all__ = ["Noise", "noise_of"]


@dataclass(frozen=True)
class Noise:
    """Standard deviations in log seconds. `within` is the median over `trials`; None where too little was repeated.

    `between` is over `turns` of `strategies`, with its 95 % `interval`.
    """

    within: float | None
    trials: int
    between: float | None
    interval: tuple[float, float] | None
    strategies: int
    turns: int


def noise_of(trials: Sequence[RuntimeRecord], turns: Sequence[RuntimeRecord]) -> Noise:
    """Of complete `trials`, and of complete `turns` of finalists."""
    complete = [each for each in trials if each.outcome == "ok" and len(each.step_seconds) > 1]
    deviations = [_deviation(each.step_seconds) for each in complete]
    medians: dict[str, list[float]] = {}
    for each in turns:
        if each.median_seconds is not None:
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
        turns=sum(map(len, repeated)),
    )


def _deviation(seconds: Sequence[float]) -> float:
    return statistics.stdev(map(math.log, seconds))
