"""Each metric on examples computed by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from autosync.pretraining.metrics import (
    METRICS,
    Predictions,
    interval_coverage,
    interval_width,
    kendall_tau,
    mean_percentage_error,
    order_beyond_noise,
    pairs_in_order,
    pairwise_beyond_noise,
    pairwise_near_top,
    peak_at_1,
    peak_at_5,
    recall_of_best,
    regret_of_best,
)


def predictions(predicted: list[float], measured: list[float], error: float = 0.0, spread: float = 0.0) -> Predictions:
    """Return predictions and times, both passed in seconds."""
    count = len(measured)
    return Predictions(
        np.log(predicted), np.log(measured), np.full(count, error), np.full(count, spread) if spread else None
    )


def test_pairs_within_twice_the_error_of_their_difference_are_not_told_apart() -> None:
    # The error of a difference is 0.01 sqrt(2), so 2.83 % is the margin: the pair 1.00, 1.02 is a tie.
    measured = [math.exp(0.0), math.exp(0.02), math.exp(0.05)]
    result = order_beyond_noise(predictions(measured, measured, error=0.01))
    assert result.tolist() == [[0, 0, -1], [0, 0, -1], [1, 1, 0]]


def test_pairwise_accuracy_is_the_share_of_pairs_in_their_order() -> None:
    # Only one of the six pairs, (1, 2), is predicted in the wrong order.
    assert pairwise_beyond_noise(predictions([2.0, 1.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0])) == pytest.approx(5 / 6)


def test_a_predicted_tie_counts_half_and_a_measured_tie_not_at_all() -> None:
    assert pairwise_beyond_noise(predictions([1.0, 1.0], [1.0, 2.0])) == 0.5
    # Left out: the pair 1.00, 1.02. In order: one of the two pairs with 2.0.
    assert pairwise_beyond_noise(predictions([3.0, 1.0, 2.0], [1.0, 1.02, 2.0], error=0.01)) == 0.5


def test_without_a_pair_told_apart_accuracy_says_nothing() -> None:
    assert np.isnan(pairwise_beyond_noise(predictions([1.0, 2.0], [1.0, 1.0])))


def test_near_the_top_are_those_within_a_quarter_of_the_fastest() -> None:
    # 1.0, 1.1 and 1.25 are near the top. Only one of their three pairs, (1.0, 1.1), is predicted in the wrong order.
    measured, predicted = [1.0, 1.1, 1.25, 1.26, 9.0], [1.1, 1.0, 1.2, 0.1, 0.2]
    assert pairwise_near_top(predictions(predicted, measured)) == pytest.approx(2 / 3)
    assert np.isnan(pairwise_near_top(predictions([1.0, 2.0], [1.0, 2.0])))


def test_of_pairs_wanted_alone_the_others_do_not_count() -> None:
    wanted = np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]], bool)
    assert pairs_in_order(predictions([1.0, 2.0, 0.1], [1.0, 2.0, 3.0]), wanted) == 1.0


def test_recall_is_the_share_of_the_ten_fastest_in_the_first_twenty() -> None:
    measured = [float(number) for number in range(1, 26)]
    assert recall_of_best(predictions(measured, measured)) == 1.0
    # Predicted in reverse order, the first twenty are 25 to 6; these include 6 to 10 of the ten fastest.
    assert recall_of_best(predictions(measured[::-1], measured)) == 0.5
    assert np.isnan(recall_of_best(predictions(measured[:20], measured[:20])))


def test_kendall_tau_is_pairs_in_order_less_the_others() -> None:
    assert kendall_tau(predictions([2.0, 1.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0])) == pytest.approx(4 / 6)
    assert kendall_tau(predictions([4.0, 3.0, 2.0, 1.0], [1.0, 2.0, 3.0, 4.0])) == pytest.approx(-1.0)


def test_kendall_tau_divides_by_untied_pairs() -> None:
    # Measured has 2 untied pairs, predicted 3, both measured ones in order: 2 / sqrt(2 * 3).
    assert kendall_tau(predictions([1.0, 2.0, 3.0], [1.0, 1.0, 2.0])) == pytest.approx(2 / math.sqrt(6))


def test_peak_compares_the_best_with_the_best_of_those_predicted_best() -> None:
    measured = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    assert peak_at_1(predictions(measured[::-1], measured)) == pytest.approx(1 / 7)
    assert peak_at_5(predictions(measured[::-1], measured)) == pytest.approx(1 / 3)
    assert peak_at_1(predictions(measured, measured)) == 1.0


def test_regret_is_how_much_slower_the_chosen_one_is() -> None:
    assert regret_of_best(predictions([2.0, 1.0], [1.0, 1.25])) == pytest.approx(0.25)


def test_mean_percentage_error_is_of_seconds() -> None:
    assert mean_percentage_error(predictions([1.1, 1.0], [1.0, 2.0])) == pytest.approx((0.1 + 0.5) / 2)


def test_coverage_counts_what_lies_within_the_interval() -> None:
    # 0.1 to either side of the logarithm holds errors of 5 % and -5 %, but not 20 %.
    result = predictions([1.05, 0.95, 1.2, 1.0], [1.0, 1.0, 1.0, 1.0], spread=0.1 / 1.6449)
    assert interval_coverage(result) == 0.75
    assert interval_width(result) == pytest.approx(math.expm1(0.1))


def test_a_simulator_that_does_not_say_how_sure_it_is_has_no_coverage() -> None:
    result = predictions([1.0, 2.0], [1.0, 2.0])
    assert np.isnan(interval_coverage(result))
    assert np.isnan(interval_width(result))


@pytest.mark.parametrize("name", METRICS)
def test_resamples_are_worked_out_at_once_as_one_by_one(name: str) -> None:
    rng = np.random.default_rng(0)
    result = Predictions(*(rng.uniform(0.1, 1.0, (24,)) for _ in range(4)))
    positions = rng.integers(24, size=(5, 24))
    at_once = METRICS[name].of(result.at(positions))
    assert at_once.shape == (5,)
    np.testing.assert_allclose(at_once, [METRICS[name].of(result.at(row)) for row in positions])
    np.testing.assert_allclose(METRICS[name].resample(result, positions), at_once)
