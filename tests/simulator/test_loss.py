"""The losses compare only comparable records: records of one family whose times differ by more than their noise."""

from __future__ import annotations

import math

import pytest
import torch

from autosync.simulator.examples import Targets
from autosync.simulator.train import (
    ERROR,
    OUTLIER,
    TEMPERATURE,
    choose_pairs,
    pair_weights,
    ranking_loss,
    regression_loss,
)


def examples(
    measured: list[float], errors: list[float], occasions: list[int], weights: list[float] | None = None
) -> Targets:
    log_seconds, deviations = (torch.tensor(values, dtype=torch.float64) for values in (measured, errors))
    heavy = torch.tensor(weights or [1.0] * len(measured), dtype=torch.float64)
    base, numbers = torch.zeros_like(log_seconds), torch.arange(len(measured))
    return Targets(base, log_seconds, deviations, torch.tensor(occasions), numbers, heavy)


def pairs_of(targets: Targets) -> set[tuple[int, int]]:
    faster, slower = targets.distinguishable_pairs
    return set(zip(faster.tolist(), slower.tolist(), strict=True))


def test_pairs_name_the_faster_record_first() -> None:
    assert pairs_of(examples([0.3, 0.1, 0.2], [0.01] * 3, [0, 0, 0])) == {(1, 0), (1, 2), (2, 0)}


def test_records_within_their_noise_are_not_ranked() -> None:
    assert pairs_of(examples([0.0, 0.02, 1.0], [0.01] * 3, [0, 0, 0])) == {(0, 2), (1, 2)}
    assert pairs_of(examples([0.0, 0.2], [0.01, 0.5], [0, 0])) == set()


def test_records_of_two_occasions_are_not_ranked_against_each_other() -> None:
    assert pairs_of(examples([0.0, 1.0, 2.0], [0.01] * 3, [0, 1, 0])) == {(0, 2)}


def test_the_ranking_loss_is_ranknets() -> None:
    pairs, targets = (torch.tensor([0]), torch.tensor([1])), examples([0.0, 1.0], [0.01] * 2, [0, 0])
    for gap in (-0.1, 0.0, 0.1):
        predicted = torch.tensor([0.0, gap], dtype=torch.float64)
        expected = math.log1p(math.exp(-gap / TEMPERATURE))
        assert float(ranking_loss(predicted, targets, pairs)) == pytest.approx(expected)


def test_without_pairs_the_ranking_loss_is_zero() -> None:
    none = torch.tensor([], dtype=torch.int64)
    assert float(ranking_loss(torch.zeros(2), examples([0.0, 1.0], [0.01] * 2, [0, 0]), (none, none))) == 0


def test_small_errors_count_squared_and_large_ones_as_they_are() -> None:
    targets = examples([0.0], [0.01], [0])
    small, large = (float(regression_loss(targets.measured + error * ERROR, targets)) for error in (0.5, 10.0))
    assert small == pytest.approx(0.5 * 0.5**2)
    assert large == pytest.approx(OUTLIER * (10.0 - OUTLIER / 2))


def test_a_record_of_weight_two_counts_like_two_records_and_a_pair_like_the_lighter_of_its_two() -> None:
    heavy = examples([0.0, 1.0, 2.0], [0.01] * 3, [0] * 3, [2.0, 1.0, 1.0])
    twice = examples([0.0, 0.0, 1.0, 2.0], [0.01] * 4, [0] * 4)
    predicted = torch.tensor([0.1, 0.8, 2.3], dtype=torch.float64)
    losses = [regression_loss(predicted, heavy), regression_loss(predicted[[0, 0, 1, 2]], twice)]
    assert float(losses[0]) == pytest.approx(float(losses[1]))
    pairs = torch.tensor([0, 1]), torch.tensor([1, 2])
    assert pair_weights(heavy, pairs).tolist() == [1.0, 1.0]
    light = examples([0.0, 1.0, 2.0], [0.01] * 3, [0] * 3, [1.0, 1.0, 1e-6])
    alone = ranking_loss(predicted, light, (pairs[0][:1], pairs[1][:1]))
    assert float(ranking_loss(predicted, light, pairs)) == pytest.approx(float(alone), rel=1e-4)


def test_pairs_beyond_the_limit_are_drawn_at_random_without_repeats() -> None:
    many = examples([float(k) for k in range(40)], [0.01] * 40, [0] * 40)
    faster, slower = choose_pairs(many, 100, torch.Generator().manual_seed(0))
    assert len(set(zip(faster.tolist(), slower.tolist(), strict=True))) == 100
    assert (faster < slower).all()
