"""Means and intervals of scores, on predictions with known errors."""

from __future__ import annotations

import numpy as np
import pytest

from autosync.pretraining.metrics import Predictions
from studies.evaluation.findings import scores_of


def predictions(errors: np.ndarray) -> Predictions:
    """Predictions with these errors, for times so far apart that no order changes."""
    measured = np.arange(len(errors), dtype=np.float64)
    return Predictions(measured + errors, measured, np.zeros(len(errors)))


def test_a_score_is_the_mean_over_cells_of_the_mean_over_seeds() -> None:
    by_seed = {
        "large": [predictions(np.log(np.full(30, 1.1))), predictions(np.log(np.full(30, 1.3)))],
        "small": [predictions(np.log(np.full(5, 1.0))), predictions(np.log(np.full(5, 1.2)))],
    }
    assert scores_of(by_seed, 10)["mape"].value == pytest.approx((0.2 + 0.1) / 2)


def test_the_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    """In 100 draws of 40 strategies, a bootstrap's 95 % interval contains the true mean at least 85 times. Fewer
    than 85 has a probability below 1 in 10 000 if the coverage is 95 %, and of 1 in 100 if the coverage is 92 %,
    which is usual at this size."""
    rng, held = np.random.default_rng(0), 0
    for _ in range(100):
        errors = np.log1p(rng.uniform(0, 0.2, 40))
        estimate = scores_of({"cell": [predictions(errors)]}, 200)["mape"]
        held += estimate.low <= 0.1 <= estimate.high
    assert held >= 85


def test_seeds_that_differ_widen_the_interval() -> None:
    alike = scores_of({"cell": [predictions(np.full(20, 0.1))] * 5}, 200)["mape"]
    apart = scores_of({"cell": [predictions(np.full(20, error)) for error in (0.02, 0.06, 0.1, 0.14, 0.18)]}, 200)[
        "mape"
    ]
    assert alike.high - alike.low < 1e-12
    assert apart.high - apart.low > 0.05


def test_a_difference_of_what_is_resampled_alike_has_an_interval_of_its_own() -> None:
    errors = np.log1p(np.random.default_rng(1).uniform(0, 0.5, 25))
    first, second = (
        scores_of({"cell": [predictions(values)]}, 200)["mape"] for values in (errors, np.log(1.01) + errors)
    )
    difference = second.minus(first)
    assert difference.value == pytest.approx(0.01 * (1 + first.value), rel=1e-6)
    assert 0 < difference.high - difference.low < 0.1 * (first.high - first.low)


def test_a_cell_that_says_nothing_is_left_out_and_none_at_all_is_no_number() -> None:
    tied = Predictions(np.array([1.0, 2.0]), np.zeros(2), np.zeros(2))
    scores = scores_of({"tied": [tied], "clear": [predictions(np.zeros(4))]}, 10)
    assert scores["pairwise"].value == 1.0
    assert scores_of({"tied": [tied]}, 10)["pairwise"].to_json() == {"value": None, "low": None, "high": None}


def test_the_same_predictions_give_the_same_interval() -> None:
    by_seed = {"cell": [predictions(np.log1p(np.random.default_rng(3).uniform(0, 1, 15)))]}
    assert scores_of(by_seed, 50)["mape"].low == scores_of(by_seed, 50)["mape"].low
