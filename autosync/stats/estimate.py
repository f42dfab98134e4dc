"""Figures with their 95 % intervals: of medians, shares, ratios and speed-ups."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, final

import numpy as np
import numpy.typing as npt
from scipy.stats import binomtest
from scipy.stats import t as student

from autosync.spec import median_interval

Floats = npt.NDArray[np.float64]

RESAMPLES = 1000
CONFIDENCE = 0.95
TAILS_PERCENT = (2.5, 97.5)


@final
@dataclass(frozen=True)
class Estimate:
    """`value` and the ends of its 95 % interval; any of them may be infinite, or NaN where it says nothing.

    What was resampled holds its `resamples` (b,), so that its difference from what was resampled alike is known too.
    """

    value: float
    low: float
    high: float
    resamples: Floats | None = field(default=None, repr=False, compare=False)

    def minus(self, other: Estimate) -> Estimate:
        """The difference by which this is more than `other`, which was resampled alike."""
        assert self.resamples is not None, "a difference needs resamples"
        assert other.resamples is not None, "a difference needs resamples"
        return estimate_of(np.append(self.value - other.value, self.resamples - other.resamples))

    def to_json(self) -> dict[str, float | None]:
        values = {"value": self.value, "low": self.low, "high": self.high}
        return {name: value if math.isfinite(value) else None for name, value in values.items()}


def median_of(values: Sequence[float] | Floats) -> Estimate:
    """The median and two order statistics around it. Values that were not reached count as infinite.

    Exact in both, as long as more than half were reached; else the median is infinite, and only that is known.
    """
    listed = [float(each) for each in values]
    return Estimate(statistics.median(listed), *median_interval(listed))


def share_of(count: int, total: int) -> Estimate:
    """The share of `count` in `total`, with Wilson's interval (1927)."""
    if total == 0:
        return Estimate(math.nan, 0.0, 1.0)
    interval = binomtest(count, total).proportion_ci(method="wilson")
    return Estimate(count / total, float(interval.low), float(interval.high))


def geometric_mean(values: Sequence[float]) -> Estimate:
    """The geometric mean, as of speed-ups, with Student's interval over logarithms; infinitely wide for one value."""
    logs = [math.log(each) for each in values]
    centre = statistics.fmean(logs)
    if len(logs) < 2:
        return Estimate(math.exp(centre), 0.0, math.inf)
    margin = float(student.ppf((1 + CONFIDENCE) / 2, len(logs) - 1)) * statistics.stdev(logs) / math.sqrt(len(logs))
    return Estimate(math.exp(centre), math.exp(centre - margin), math.exp(centre + margin))


def resampled(groups: Sequence[Floats], centre: Callable[..., Floats], seed: int = 0) -> Floats:
    """The `centre` of each group of seeds' values (s,), and of its resamples: float64 (1 + RESAMPLES, groups).

    Seeds are drawn with replacement in each group by itself; groups are not drawn, so what comes of this speaks about
    them. `centre` takes an axis, as numpy's functions do.
    """
    generator = np.random.default_rng(seed)
    columns = []
    for values in groups:
        drawn = values[generator.integers(len(values), size=(RESAMPLES, len(values)))]
        columns.append(np.append(centre(values, axis=-1), centre(drawn, axis=-1)))
    return np.stack(columns, axis=1)


def estimate_of(found: Floats, method: Literal["linear", "closest_observation"] = "linear") -> Estimate:
    """The first of `found`, with percentiles of the others, which are the same of resamples; NaN does not count.

    Between two resamples a percentile is interpolated, or is the nearer one's by the other `method`.
    """
    resamples = found[1:]
    known, low, high = resamples[~np.isnan(resamples)], math.nan, math.nan
    if len(known):
        low, high = (float(end) for end in np.percentile(known, TAILS_PERCENT, method=method))
    return Estimate(float(found[0]), low, high, resamples)
