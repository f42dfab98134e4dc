"""What a search could do that knew everything but the noise."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
import pytest

from autosync.errors import BenchError
from autosync.studies.bench.contenders import IDEAL, PriorKnowledge
from autosync.studies.bench.ideal import foreseen, noise_free
from autosync.studies.bench.replaying import SearchJob, searched
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
    found = cell()
    order = foreseen(found, seed=0)
    assert sorted(each.digest for each in order) == sorted(each.digest for each in found.trials)
    seconds = [found.seconds[each] for each in order]
    timed = [each for each in seconds if math.isfinite(each)]
    assert seconds[: len(timed)] == timed
    ranks = np.argsort(np.argsort(timed))
    assert np.corrcoef(ranks, np.arange(len(timed)))[0, 1] > 0.9


def test_seeds_foresee_other_orders_where_there_is_noise() -> None:
    noisy = replace(cell(), deviation=0.5)
    orders = {tuple(each.digest for each in foreseen(noisy, seed)) for seed in range(5)}
    assert len(orders) == 5
    assert foreseen(noisy, 3) == foreseen(noisy, 3)


@pytest.mark.parametrize("baselines", [True, False])
def test_it_searches_a_pool_like_others_and_no_other_is_sooner(baselines: bool) -> None:
    found = cell()
    precise = replace(found, deviation=1e-6)
    job = SearchJob(found.name, found.digest, IDEAL, baselines, 15, 0)
    row = searched(precise, job, 0, PriorKnowledge(cell=precise))
    assert row["true_seconds"] == sorted(row["true_seconds"])
    other = searched(precise, replace(job, searcher="random"), random.Random(0).randrange(9), PriorKnowledge())
    assert row["true_seconds"][0] <= min(other["true_seconds"])


def test_it_needs_the_cell() -> None:
    found = cell()
    job = SearchJob(found.name, found.digest, IDEAL, True, 15, 0)
    with pytest.raises(BenchError, match="worked out from the cell that it searches"):
        searched(found, job, 0, PriorKnowledge())
