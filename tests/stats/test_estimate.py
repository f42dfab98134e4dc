"""Intervals: order statistics with censored values, Wilson's, Student's, and the bootstrap."""

from __future__ import annotations

import math

import numpy as np
import pytest

from autosync.stats.estimate import Estimate, estimate_of, geometric_mean, median_of, resample, share_of
from autosync.stats.tables import in_percent
from studies.bench.words import in_seconds, in_times, in_trials


def test_a_median_is_known_while_more_than_half_are() -> None:
    estimate = median_of([*range(1, 14), *[math.inf] * 7])
    assert (estimate.value, estimate.low, estimate.high) == (10.5, 6.0, math.inf)
    assert median_of([1.0] * 4 + [math.inf] * 5).value == math.inf


def test_shares_have_wilson_s_interval() -> None:
    estimate = share_of(5, 10)
    assert (estimate.value, estimate.low, estimate.high) == pytest.approx((0.5, 0.2366, 0.7634), abs=1e-4)
    assert share_of(0, 10).high == pytest.approx(0.2775, abs=1e-4)
    assert math.isnan(share_of(0, 0).value)


def test_speed_ups_have_student_s_interval_over_their_logarithms() -> None:
    estimate = geometric_mean([1.0, 4.0])
    margin = 12.706 * math.log(4.0) / math.sqrt(2) / math.sqrt(2)
    assert estimate.value == pytest.approx(2.0)
    assert math.log(estimate.high / estimate.value) == pytest.approx(margin, rel=1e-3)
    assert geometric_mean([1.5]) == Estimate(1.5, 0.0, math.inf)


def test_resamples_of_a_constant_are_that_constant_and_of_others_they_spread() -> None:
    """The mean of 25 normal values has a standard deviation of 0.2, so 95 % of 1000 resamples lie within about 0.4."""
    values = np.random.default_rng(0).standard_normal(25)
    resamples = resample([np.full(5, 3.0), values], np.mean)
    assert (resamples[:, 0] == 3.0).all()
    estimate = estimate_of(resamples[:, 1])
    assert estimate.value == pytest.approx(values.mean())
    assert 0.5 < estimate.high - estimate.low < 1.1
    assert estimate.low < estimate.value < estimate.high


def test_an_estimate_s_interval_leaves_out_a_fortieth_of_the_resamples_at_either_end() -> None:
    resamples = np.random.default_rng(0).permutation(np.arange(1001.0))
    estimate = estimate_of(np.array([400.0, *resamples]))
    assert estimate.value == 400.0
    assert (estimate.low, estimate.high) == pytest.approx((25, 975), abs=1.5)


def test_estimates_are_written_with_their_intervals() -> None:
    assert in_trials(Estimate(17.0, 12.0, math.inf), 100) == "17 [12, >100]"
    assert in_times(Estimate(1.345, 1.29, 1.381)) == "1.34 [1.29, 1.38]"
    assert in_percent(Estimate(0.121, 0.103, 0.142)) == "12.1 % [10.3, 14.2]"
    assert in_seconds(Estimate(120.4, 90.2, math.inf)) == "120 s [90.2, never]"
    assert in_times(Estimate(math.nan, 0.0, 1.0)) == in_percent(share_of(0, 0)) == "-"
