"""A distribution-free confidence interval of the median."""

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache


def median_interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """Two order statistics that enclose the median with at least `confidence`, for any distribution.

    For independent values the interval is exact: X(k) to X(n+1-k) with the largest k for which
    2 P(Binomial(n, 1/2) < k) is at most 1 - `confidence`. If no such k exists (under 6 values for 95 %), the interval
    is from the least to the greatest value. Steps of a trial depend on each other, so the medians of several trials
    vary more than this interval.
    """
    if not values:
        raise ValueError("A median's interval needs at least one value; none was given.")
    ordered = sorted(values)
    rank = max(1, _rank(len(ordered), confidence))
    return ordered[rank - 1], ordered[len(ordered) - rank]


@lru_cache(maxsize=1024)
def _rank(count: int, confidence: float) -> int:
    """The k of `median_interval`; 0 if none exists."""
    most = Fraction(1 - confidence) / 2 * 2**count
    rank, below = 0, 1
    while below <= most:
        rank += 1
        below += math.comb(count, rank)
    return rank
