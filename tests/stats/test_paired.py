"""Intervals of speed-ups from paired rounds: their coverage, their ends, and too few rounds."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from autosync.stats.paired import EXACT_FROM, interval_of, log_ratios, pool_noise, speedup_of


def test_the_estimate_is_the_median_of_averages_of_pairs_of_rounds() -> None:
    logs = np.array([0.0, 0.1, 0.4])
    assert math.log(speedup_of(logs)) == pytest.approx(np.median([0.0, 0.1, 0.4, 0.05, 0.2, 0.25]))
    assert speedup_of(log_ratios([0.4, 0.3], [0.2, 0.15])) == pytest.approx(2.0)


def test_one_disturbed_round_hardly_moves_the_estimate() -> None:
    logs = np.full(9, math.log(1.1))
    disturbed = np.append(logs, math.log(30.0))
    assert speedup_of(disturbed) == pytest.approx(1.1)


@pytest.mark.parametrize("rounds", [0, 1, 2])
def test_too_few_rounds_have_no_interval(rounds: int) -> None:
    assert interval_of(np.zeros(rounds)) is None


def test_three_rounds_have_students_interval_with_two_degrees_of_freedom() -> None:
    logs = np.array([-0.1, 0.0, 0.1])
    low, high = interval_of(logs) or (0.0, 0.0)
    assert math.log(high) == pytest.approx(4.303 * 0.1 / math.sqrt(3), rel=1e-3)
    assert math.log(low) == pytest.approx(-math.log(high))
    wider = interval_of(logs, noise=0.2)
    assert wider is not None
    assert math.log(wider[1]) == pytest.approx(4.303 * 0.2 / math.sqrt(3), rel=1e-3)


def test_the_signed_rank_interval_lies_above_one_exactly_where_the_exact_test_rejects() -> None:
    """Over all 2^10 signs of ten magnitudes, at most the stated share has an interval above 1."""
    magnitudes = np.array([1.0, 2.0, 3.1, 4.3, 5.2, 6.4, 7.7, 8.9, 9.6, 10.8]) / 100
    assert len(magnitudes) == EXACT_FROM
    above = 0
    for signs in product((-1.0, 1.0), repeat=len(magnitudes)):
        low, _ = interval_of(magnitudes * signs) or (0.0, 0.0)
        above += low > 1
    assert 0.015 < above / 2**10 <= 0.025


def test_an_error_too_small_for_signs_has_students_interval() -> None:
    logs = np.linspace(0.01, 0.02, EXACT_FROM)
    small = interval_of(logs, 2.0**-EXACT_FROM)
    assert small is not None
    assert small[0] < math.exp(0.01), "no signed-rank interval ends outside the observations"


def test_pooled_noise_is_that_of_log_ratios_whatever_drift_and_levels_are() -> None:
    generator = np.random.default_rng(2)
    drift, levels = generator.standard_normal(200), np.array([[0.1], [0.2], [0.7]])
    medians = levels * np.exp(drift + 0.03 * generator.standard_normal((3, 200)))
    assert pool_noise(medians) == pytest.approx(0.03 * math.sqrt(2), rel=0.1)
    pair = pool_noise(medians[:2])
    assert pair == pytest.approx(float((np.log(medians[0]) - np.log(medians[1])).std(ddof=1)))
    assert pool_noise(medians[:1]) == pool_noise(medians[:, :1]) == 0.0


@pytest.mark.parametrize("rounds", [3, 5, 12])
def test_the_interval_holds_the_true_speedup_about_95_times_in_100(rounds: int) -> None:
    """600 experiments with a speed-up of 1.1, errors of 2 % between trials and 5 % between rounds.

    The probability of fewer than 550 hits is 1 in 5000 at a coverage of 95 %, and 997 in 1000 at 88 %.
    """
    generator = np.random.default_rng(11)
    hits = 0
    for _ in range(600):
        drift = 0.05 * generator.standard_normal(rounds)
        slow, fast = (seconds * np.exp(drift + 0.02 * generator.standard_normal(rounds)) for seconds in (0.11, 0.1))
        low, high = interval_of(log_ratios(slow, fast)) or (0.0, 0.0)
        hits += low <= 1.1 <= high
    assert hits >= 550
