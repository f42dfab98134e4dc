"""Rank agreement, regret and intervals, against worked examples."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from autosync.baselines import BASELINES
from autosync.search import Proposal, best_so_far, kendall_tau, median_interval, pairwise_accuracy, regret
from search_spaces.default import SPACE
from tests.cases import mlp_model, star_cluster
from tests.search.laws import timed, truth

MODEL, CLUSTER = mlp_model(), star_cluster(2)
RECORD = timed(SPACE.bind(MODEL, CLUSTER), Proposal(BASELINES["byteps"](MODEL, CLUSTER), "byteps"), truth())


def test_kendall_tau_of_a_worked_example():
    assert kendall_tau([1, 2, 3, 4], [10, 20, 40, 30]) == pytest.approx((5 - 1) / 6)
    assert kendall_tau([1, 2, 3], [3, 2, 1]) == pytest.approx(-1.0)


def test_pairwise_accuracy_counts_ties_half_and_leaves_out_equal_measurements():
    assert pairwise_accuracy([1, 2, 3, 4], [10, 20, 40, 30]) == pytest.approx(5 / 6)
    assert pairwise_accuracy([1, 1], [1, 2]) == 0.5
    assert pairwise_accuracy([1, 2, 3], [5, 5, 6]) == 1.0


def test_rank_agreement_of_too_little_is_not_a_number():
    assert math.isnan(kendall_tau([1.0], [1.0]))
    assert math.isnan(pairwise_accuracy([], []))
    assert math.isnan(pairwise_accuracy([1, 2], [3, 3]))


def test_the_best_so_far_passes_over_failures():
    failed = replace(RECORD, outcome="failed", reason="out of memory", step_seconds=())
    records = [failed, *(replace(RECORD, step_seconds=(seconds,)) for seconds in (0.4, 0.5, 0.2)), failed]
    assert best_so_far(records).tolist() == [math.inf, 0.4, 0.4, 0.2, 0.2]
    assert regret(records[1:], 0.2).tolist() == pytest.approx([1.0, 1.0, 0.0, 0.0])
    assert best_so_far([]).tolist() == []


@pytest.mark.parametrize(("count", "rank"), [(1, 1), (5, 1), (6, 1), (9, 2), (20, 6), (40, 14), (100, 40)])
def test_the_median_interval_takes_the_tabled_order_statistics(count: int, rank: int):
    """Ranks from tables of the sign test, two-sided 5 %."""
    values = list(np.random.default_rng(0).permutation(np.arange(1.0, count + 1)))
    assert median_interval(values) == (rank, count + 1 - rank)


def test_the_median_interval_holds_the_median_as_often_as_it_says():
    """2000 samples of 15 skewed values; the exact odds are 96.5 %, five standard deviations are 2 %."""
    generator = np.random.default_rng(3)
    samples = generator.exponential(size=(2000, 15))
    hits = [low <= math.log(2) <= high for low, high in map(median_interval, samples.tolist())]
    assert 0.945 < np.mean(hits) < 0.985


def test_a_median_of_nothing_has_no_interval():
    with pytest.raises(ValueError, match="needs at least one value"):
        median_interval([])
