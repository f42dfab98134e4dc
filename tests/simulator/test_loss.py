"""The losses compare what may be compared: records of one family, further apart than their noise."""

from __future__ import annotations

import math

import pytest
import torch

from autosync.simulator.examples import Examples
from autosync.simulator.loss import TEMPERATURE, ranking_loss, regression_loss, told_apart
from autosync.simulator.train import TrainingSettings, bootstrap_weights, training_pairs


def examples(measured: list[float], errors: list[float], families: list[int]) -> Examples:
    doubles = (torch.tensor(each, dtype=torch.float64) for each in (measured, errors))
    log_seconds, deviations = doubles
    features = torch.zeros(len(measured), 1, dtype=torch.float64)
    return Examples(features, torch.zeros_like(log_seconds), log_seconds, deviations, torch.tensor(families))


def pairs_of(given: Examples) -> set[tuple[int, int]]:
    faster, slower = told_apart(given)
    return set(zip(faster.tolist(), slower.tolist(), strict=True))


def test_pairs_name_the_faster_record_first() -> None:
    assert pairs_of(examples([0.3, 0.1, 0.2], [0.01] * 3, [0, 0, 0])) == {(1, 0), (1, 2), (2, 0)}


def test_records_within_their_noise_are_not_ranked() -> None:
    assert pairs_of(examples([0.0, 0.02, 1.0], [0.01] * 3, [0, 0, 0])) == {(0, 2), (1, 2)}
    assert pairs_of(examples([0.0, 0.2], [0.01, 0.5], [0, 0])) == set()


def test_records_of_two_families_are_not_ranked_against_each_other() -> None:
    assert pairs_of(examples([0.0, 1.0, 2.0], [0.01] * 3, [0, 1, 0])) == {(0, 2)}


def test_the_ranking_loss_is_ranknets() -> None:
    pairs = torch.tensor([0]), torch.tensor([1])
    weights = torch.ones(2, dtype=torch.float64)
    for gap in (-0.1, 0.0, 0.1):
        predicted = torch.tensor([0.0, gap], dtype=torch.float64)
        expected = math.log1p(math.exp(-gap / TEMPERATURE))
        assert float(ranking_loss(predicted, pairs, weights)) == pytest.approx(expected)


def test_without_pairs_the_ranking_loss_is_zero() -> None:
    none = torch.tensor([], dtype=torch.int64)
    assert float(ranking_loss(torch.zeros(2), (none, none), torch.ones(2))) == 0


def test_records_that_a_bootstrap_left_out_do_not_count() -> None:
    predicted, measured = torch.tensor([0.0, 9.0]), torch.zeros(2)
    assert float(regression_loss(predicted, measured, torch.tensor([2.0, 0.0]))) == 0
    pairs = torch.tensor([0]), torch.tensor([1])
    assert float(ranking_loss(predicted, pairs, torch.tensor([2.0, 0.0]))) == 0


def test_a_bootstrap_draws_as_many_records_as_there_are() -> None:
    generator = torch.Generator().manual_seed(0)
    weights = bootstrap_weights(50, generator)
    assert weights.shape == (50,)
    assert float(weights.sum()) == 50
    assert (weights == 0).any()


def test_pairs_beyond_the_limit_are_drawn_at_random_without_repeats() -> None:
    many = examples([float(k) for k in range(40)], [0.01] * 40, [0] * 40)
    settings = TrainingSettings(pairs=100)
    faster, slower = training_pairs(many, settings, torch.Generator().manual_seed(0))
    assert len(set(zip(faster.tolist(), slower.tolist(), strict=True))) == 100
    assert (faster < slower).all()
