"""The interval of a median, compared with tables and simulated coverage."""

from __future__ import annotations

import math
import random

import pytest

from autosync.spec import median_interval


@pytest.mark.parametrize(("count", "rank"), [(1, 1), (5, 1), (6, 1), (9, 2), (20, 6), (40, 14), (100, 40)])
def test_the_median_interval_takes_the_tabled_order_statistics(count: int, rank: int):
    """Ranks from tables of the sign test, two-sided 5 %."""
    values = random.Random(0).sample([float(value) for value in range(1, count + 1)], count)
    assert median_interval(values) == (rank, count + 1 - rank)


def test_the_median_interval_holds_the_median_as_often_as_it_says():
    """2000 samples of 15 skewed values: the exact coverage is 96.5 %, and five standard deviations are 2 %."""
    rng = random.Random(3)
    samples = [[rng.expovariate(1.0) for _ in range(15)] for _ in range(2000)]
    hits = sum(low <= math.log(2) <= high for low, high in map(median_interval, samples))
    assert 0.945 < hits / 2000 < 0.985


def test_an_interval_of_very_many_values_is_as_narrow_as_the_normal_approximation_says():
    low, high = median_interval([float(value) for value in range(5000)])
    assert (low, high) == (pytest.approx(2499.5 - 0.98 * math.sqrt(5000), abs=1.5), pytest.approx(4999 - low))


def test_a_median_of_nothing_has_no_interval():
    with pytest.raises(ValueError, match="needs at least one value"):
        median_interval([])
