"""Estimates of the noise from repeats, on known noise."""

from __future__ import annotations

import math

import numpy as np
import pytest

from autosync.pretraining.metrics import (
    best_possible_accuracy,
    best_possible_error,
    pairwise_beyond_noise,
    second_look,
)
from autosync.stats.noise import deviation_of_repeats, deviation_of_steps


def test_the_deviation_of_one_trial_is_found_from_differences_of_two() -> None:
    """With 4000 pairs the standard error is 2 %, so a deviation of 5 % does not occur by chance."""
    rng = np.random.default_rng(0)
    ratios = rng.normal(0, 0.03, 4000) - rng.normal(0, 0.03, 4000)
    assert deviation_of_repeats(ratios.tolist()) == pytest.approx(0.03, rel=0.05)


def test_a_few_trials_on_a_busy_machine_do_not_widen_the_noise() -> None:
    calm = [0.01, -0.01, 0.02, -0.02, 0.015, -0.015, 0.01, -0.02]
    assert deviation_of_repeats([*calm, 1.5]) < 1.3 * deviation_of_repeats(calm)


def test_without_repeats_the_steps_within_trials_are_the_noise() -> None:
    steps = [math.exp(log_seconds) for log_seconds in (-0.1, 0.0, 0.1, 0.0)]
    assert deviation_of_steps([steps]) == pytest.approx(1.2533 * np.std([-0.1, 0, 0.1, 0], ddof=1) / 2)
    assert deviation_of_steps([[0.1]]) == 0.005


def test_a_second_trial_agrees_as_often_as_two_noisy_orders_do() -> None:
    """Pairs with a difference of 1 % and noise of 1 % are in their true order with probability p = Phi(1 / sqrt 2). Two
    trials agree with p^2 + (1 - p)^2 = 0.635; with 8000 pairs the share has a standard error of 0.5 %."""
    rng = np.random.default_rng(1)
    first, second = (np.array([0.0, 0.01]) + rng.normal(0, 0.01, (8_000, 2)) for _ in range(2))
    agreed = [float(pairwise_beyond_noise(second_look(a, b, 0.0))) for a, b in zip(first, second, strict=True)]
    p = 0.5 * (1 + math.erf(1 / 2))
    assert np.mean(agreed) == pytest.approx(p**2 + (1 - p) ** 2, abs=0.015)
    assert best_possible_accuracy(p**2 + (1 - p) ** 2) == pytest.approx(p)


def test_perfect_knowledge_is_sure_where_repeats_always_agree() -> None:
    assert best_possible_accuracy(1.0) == 1.0
    assert best_possible_accuracy(0.4) == 0.5  # fewer agree than by chance


def test_perfect_knowledge_errs_by_one_measurement_in_place_of_two() -> None:
    rng = np.random.default_rng(2)
    first, second = rng.normal(0, 0.02, (2, 50_000))
    assert best_possible_error(np.abs(first - second).mean()) == pytest.approx(np.abs(first).mean(), rel=0.02)
