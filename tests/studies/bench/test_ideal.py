"""The oracle, a search that knows everything except the noise."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
import pytest

from autosync.errors import BenchError
from studies.bench.contenders import IDEAL, PriorKnowledge
from studies.bench.oracle import ideal_order, noise_free
from studies.bench.replaying import SearchJob, replay_search
from tests.tune.recorded.examples import cell


def test_without_noise_worth_naming_values_stay_what_they_are() -> None:
    measured = np.array([0.3, 0.1, 0.2, 0.9])
    points, chances = noise_free(measured, np.full(4, 1e-3))
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    np.testing.assert_allclose(chances @ points, measured, atol=1e-3)


def test_values_that_differ_by_noise_alone_are_taken_for_one() -> None:
    measured = np.random.default_rng(0).normal(5.0, 0.1, 400)
    points, chances = noise_free(measured, np.full(400, 0.1))
    means = chances @ points
    assert means.std() < 0.2 * measured.std()
    assert means.mean() == pytest.approx(5.0, abs=0.02)


def test_the_spread_without_noise_is_found_whatever_its_shape() -> None:
    rng = np.random.default_rng(1)
    true = np.where(rng.random(2000) < 0.3, 1.0, 2.0)
    points, chances = noise_free(true + rng.normal(0, 0.3, 2000), np.full(2000, 0.3))
    prior = chances.mean(axis=0)
    assert prior[points < 1.5].sum() == pytest.approx(0.3, abs=0.04)
    assert np.average(points, weights=prior) == pytest.approx(1.7, abs=0.03)
    assert np.average((points - 1.7) ** 2, weights=prior) == pytest.approx(0.21, abs=0.03)


def test_all_of_a_pool_are_foreseen_in_nearly_the_order_measured_and_failures_last() -> None:
    recorded = cell()
    order = ideal_order(recorded, seed=0)
    assert sorted(strategy.digest for strategy in order) == sorted(strategy.digest for strategy in recorded.trials)
    seconds = [recorded.seconds[strategy] for strategy in order]
    timed = [value for value in seconds if math.isfinite(value)]
    assert seconds[: len(timed)] == timed
    ranks = np.argsort(np.argsort(timed))
    assert np.corrcoef(ranks, np.arange(len(timed)))[0, 1] > 0.9


def test_seeds_foresee_other_orders_where_there_is_noise() -> None:
    noisy = replace(cell(), deviation=0.5)
    orders = {tuple(strategy.digest for strategy in ideal_order(noisy, seed)) for seed in range(5)}
    assert len(orders) == 5
    assert ideal_order(noisy, 3) == ideal_order(noisy, 3)


@pytest.mark.parametrize("baselines", [True, False])
def test_it_searches_a_pool_like_others_and_no_other_is_sooner(baselines: bool) -> None:
    recorded = cell()
    precise = replace(recorded, deviation=1e-6)
    job = SearchJob(recorded.name, recorded.digest, IDEAL, baselines, 15, 0)
    row = replay_search(precise, job, 0, PriorKnowledge(cell=precise))
    assert row["true_seconds"] == sorted(row["true_seconds"])
    random_row = replay_search(
        precise, replace(job, searcher="random"), random.Random(0).randrange(9), PriorKnowledge()
    )
    assert row["true_seconds"][0] <= min(random_row["true_seconds"])


def test_it_needs_the_cell() -> None:
    recorded = cell()
    job = SearchJob(recorded.name, recorded.digest, IDEAL, True, 15, 0)
    with pytest.raises(BenchError, match="computed from the cell that it searches"):
        replay_search(recorded, job, 0, PriorKnowledge())
