"""Scores' means and intervals, on predictions whose right ones are known."""

from __future__ import annotations

import numpy as np
import pytest

from autosync.studies.evaluation.findings import scores_of
from autosync.studies.evaluation.metrics import Predictions


def predictions(errors: np.ndarray) -> Predictions:
    """Predictions that are off by these, of times so far apart that no order changes."""
    measured = np.arange(len(errors), dtype=np.float64)
    return Predictions(measured + errors, measured, np.zeros(len(errors)))


def test_a_score_is_the_mean_over_cells_of_the_mean_over_seeds() -> None:
    by_seed = {
        "large": [predictions(np.log(np.full(30, 1.1))), predictions(np.log(np.full(30, 1.3)))],
        "small": [predictions(np.log(np.full(5, 1.0))), predictions(np.log(np.full(5, 1.2)))],
    }
    assert scores_of(by_seed, 10)["mape"].value == pytest.approx((0.2 + 0.1) / 2)


def test_the_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    """In 100 draws of 40 strategies, a bootstrap's 95 % interval holds the true mean 85 times or more: fewer than that
    has odds under 1 in 10 000 if the coverage is 95 %, and of 1 in 100 if it is 92 %, as is usual at this size."""
    rng, held = np.random.default_rng(0), 0
    for _ in range(100):
        errors = np.log1p(rng.uniform(0, 0.2, 40))
        found = scores_of({"cell": [predictions(errors)]}, 200)["mape"]
        held += found.low <= 0.1 <= found.high
    assert held >= 85


def test_seeds_that_differ_widen_the_interval() -> None:
    alike = scores_of({"cell": [predictions(np.full(20, 0.1))] * 5}, 200)["mape"]
    apart = scores_of({"cell": [predictions(np.full(20, each)) for each in (0.02, 0.06, 0.1, 0.14, 0.18)]}, 200)["mape"]
    assert alike.high - alike.low < 1e-12
    assert apart.high - apart.low > 0.05


def test_a_difference_of_what_is_resampled_alike_has_an_interval_of_its_own() -> None:
    errors = np.log1p(np.random.default_rng(1).uniform(0, 0.5, 25))
    one, other = (scores_of({"cell": [predictions(each)]}, 200)["mape"] for each in (errors, np.log(1.01) + errors))
    found = other.minus(one)
    assert found.value == pytest.approx(0.01 * (1 + one.value), rel=1e-6)
    assert 0 < found.high - found.low < 0.1 * (one.high - one.low)


def test_a_cell_that_says_nothing_is_left_out_and_none_at_all_is_no_number() -> None:
    tied = Predictions(np.array([1.0, 2.0]), np.zeros(2), np.zeros(2))
    found = scores_of({"tied": [tied], "clear": [predictions(np.zeros(4))]}, 10)
    assert found["pairwise"].value == 1.0
    assert scores_of({"tied": [tied]}, 10)["pairwise"].to_json() == {"value": None, "low": None, "high": None}


def test_the_same_predictions_give_the_same_interval() -> None:
    by_seed = {"cell": [predictions(np.log1p(np.random.default_rng(3).uniform(0, 1, 15)))]}
    assert scores_of(by_seed, 50)["mape"].low == scores_of(by_seed, 50)["mape"].low
