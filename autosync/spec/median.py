"""How sure the median of some values is."""

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache


def median_interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """Two order statistics that hold the median with at least `confidence`, whatever the distribution.

    For independent values they are exact: X(k) to X(n+1-k) with the largest k for which 2 P(Binomial(n, 1/2) < k) is at
    most 1 - `confidence`. With so few values that no k exists (under 6 for 95 %), they are the least and the greatest.
    Steps of one trial depend on each other, so between trials a median varies more than this says.
    """
    if not values:
        raise ValueError("A median's interval needs at least one value; none was given.")
    ordered = sorted(values)
    rank = max(1, _rank(len(ordered), confidence))
    return ordered[rank - 1], ordered[len(ordered) - rank]


@lru_cache(maxsize=1024)
def _rank(count: int, confidence: float) -> int:
    """The k of `median_interval`; 0 where none exists."""
    most = Fraction(1 - confidence) / 2 * 2**count
    rank, below = 0, 1
    while below <= most:
        rank += 1
        below += math.comb(count, rank)
    return rank
