"""Estimates with 95 % intervals: of medians, shares, ratios and speed-ups."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, final

import numpy as np
from scipy.stats import binomtest
from scipy.stats import t as student

from autosync.numeric import FloatArray
from autosync.spec import median_interval

RESAMPLES = 1000
CONFIDENCE = 0.95
TAILS_PERCENT = (2.5, 97.5)


@final
@dataclass(frozen=True)
class Estimate:
    """`value` and the ends of its 95 % interval; any of them may be infinite, or NaN if unknown.

    A bootstrap estimate holds its `resamples` (b,), from which differences of estimates with the same draws get their
    intervals.
    """

    value: float
    low: float
    high: float
    resamples: FloatArray | None = field(default=None, repr=False, compare=False)

    def minus(self, subtrahend: Estimate) -> Estimate:
        """This estimate minus `subtrahend`; both must come from the same bootstrap draws."""
        assert self.resamples is not None, "a difference needs resamples"
        assert subtrahend.resamples is not None, "a difference needs resamples"
        return estimate_of(np.append(self.value - subtrahend.value, self.resamples - subtrahend.resamples))

    def to_json(self) -> dict[str, float | None]:
        values = {"value": self.value, "low": self.low, "high": self.high}
        return {name: value if math.isfinite(value) else None for name, value in values.items()}


def median_of(values: Sequence[float] | FloatArray) -> Estimate:
    """The median and two order statistics around it. Values that were not reached count as infinite.

    Median and interval are exact if more than half of the values were reached; otherwise the median is infinite.
    """
    numbers = [float(value) for value in values]
    return Estimate(statistics.median(numbers), *median_interval(numbers))


def share_of(count: int, total: int) -> Estimate:
    """The share of `count` in `total`, with Wilson's interval (1927)."""
    if total == 0:
        return Estimate(math.nan, 0.0, 1.0)
    interval = binomtest(count, total).proportion_ci(method="wilson")
    return Estimate(count / total, float(interval.low), float(interval.high))


def geometric_mean(values: Sequence[float]) -> Estimate:
    """The geometric mean, with Student's interval over logarithms, which is infinitely wide for a single value."""
    logs = [math.log(value) for value in values]
    centre = statistics.fmean(logs)
    if len(logs) < 2:
        return Estimate(math.exp(centre), 0.0, math.inf)
    margin = float(student.ppf((1 + CONFIDENCE) / 2, len(logs) - 1)) * statistics.stdev(logs) / math.sqrt(len(logs))
    return Estimate(math.exp(centre), math.exp(centre - margin), math.exp(centre + margin))


def resample(groups: Sequence[FloatArray], centre: Callable[..., FloatArray], seed: int = 0) -> FloatArray:
    """The `centre` of each group's values (s,) by seed, and of its resamples: float64 (1 + RESAMPLES, groups).

    Seeds are drawn with replacement within each group. Groups are not drawn, so results hold for these groups only.
    `centre` takes an axis, like numpy's functions.
    """
    generator = np.random.default_rng(seed)
    columns = []
    for values in groups:
        drawn = values[generator.integers(len(values), size=(RESAMPLES, len(values)))]
        columns.append(np.append(centre(values, axis=-1), centre(drawn, axis=-1)))
    return np.stack(columns, axis=1)


def estimate_of(values: FloatArray, method: Literal["linear", "closest_observation"] = "linear") -> Estimate:
    """The first of `values` with the percentiles of the others, which come from resamples; NaN is ignored.

    `method` interpolates a percentile between two resamples, or takes the nearer one.
    """
    resamples = values[1:]
    known, low, high = resamples[~np.isnan(resamples)], math.nan, math.nan
    if len(known):
        low, high = (float(end) for end in np.percentile(known, TAILS_PERCENT, method=method))
    return Estimate(float(values[0]), low, high, resamples)
