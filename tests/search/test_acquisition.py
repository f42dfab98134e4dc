"""The correction of a simulator by measurements, and the batch picked with it."""

from __future__ import annotations

import random

import numpy as np
import pytest

from autosync.search.guided.acquisition import Pick, Pool, Residuals, best_picks, expected_improvement
from autosync.search.guided.decisions import DecisionCoder
from search_spaces.default import SPACE
from tests.cases import bert_like_model, star_cluster
from tests.search.laws import rough_simulator, truth

MODEL, CLUSTER = bert_like_model(2), star_cluster()
SPACE_HERE = SPACE.bind(MODEL, CLUSTER)
CODER = DecisionCoder(MODEL)


def sampled(count: int, seed: int = 0) -> list:
    rng = random.Random(seed)
    return [SPACE_HERE.sample(rng) for _ in range(count)]


def pool_of(strategies: list) -> Pool:
    return Pool(CODER.decisions(strategies), rough_simulator().predict(MODEL, CLUSTER, strategies))


def truth_of(strategies: list) -> np.ndarray:
    return truth().predict(MODEL, CLUSTER, strategies)


def places(picks: list[Pick]) -> list[int]:
    return [pick.place for pick in picks]


def residuals_of(strategies: list) -> Residuals:
    return Residuals(CODER, pool_of(strategies), truth_of(strategies))


def test_a_strategy_is_wholly_like_itself_and_partly_like_its_mutant():
    (strategy,) = sampled(1)
    mutant = SPACE_HERE.mutate(strategy, random.Random(1))
    likeness = CODER.kernel(CODER.decisions([strategy]), CODER.decisions([strategy, mutant, *sampled(5, 9)]), 0.3)[0]
    assert likeness[0] == pytest.approx(1.0)
    assert likeness[2:].max() < likeness[1] < 1.0


def test_renumbering_buckets_changes_no_decision():
    (strategy,) = sampled(1)
    assert (CODER.decisions([strategy]).codes == CODER.decisions([strategy.with_groups_renumbered()]).codes).all()


def test_the_kernel_is_positive_definite():
    decisions = CODER.decisions(sampled(60))
    assert np.linalg.eigvalsh(CODER.kernel(decisions, decisions, 0.3)).min() > -1e-9


def test_the_correction_agrees_with_measurements_where_they_were_made():
    strategies = sampled(30)
    residuals = residuals_of(strategies)
    error_before = np.abs(pool_of(strategies).predicted - truth_of(strategies)).mean()
    error_after = np.abs(residuals.posterior_mean(pool_of(strategies)) - truth_of(strategies)).mean()
    assert error_after < 0.3 * error_before


def test_the_correction_carries_over_to_strategies_never_measured():
    residuals, unseen = residuals_of(sampled(60)), sampled(60, seed=5)
    error_before = np.abs(pool_of(unseen).predicted - truth_of(unseen)).mean()
    error_after = np.abs(residuals.posterior_mean(pool_of(unseen)) - truth_of(unseen)).mean()
    assert error_after < 0.5 * error_before


def test_without_measurements_the_prediction_stands():
    strategies = sampled(5)
    residuals = residuals_of([])
    assert residuals.posterior_mean(pool_of(strategies)) == pytest.approx(pool_of(strategies).predicted)
    (pick,) = best_picks(residuals, pool_of(strategies), None, 1)
    assert pick.place == int(pool_of(strategies).predicted.argmin())


@pytest.mark.parametrize("measured", [1, 2, 3])
def test_a_few_measurements_are_enough_to_go_on(measured: int):
    picks = places(best_picks(residuals_of(sampled(measured)), pool_of(sampled(8, 3)), -2.0, 4))
    assert len(set(picks)) == 4


def test_picks_are_different_candidates_and_no_more_than_there_are():
    picks = places(best_picks(residuals_of(sampled(20)), pool_of(sampled(3, 3)), -2.0, 4))
    assert sorted(picks) == [0, 1, 2]


def test_those_of_the_largest_expected_improvement_are_picked_however_alike():
    (twin,), unseen, measured = sampled(1, 3), sampled(6, 4), sampled(20, 2)
    pool = pool_of([twin, twin, *unseen])
    picks = best_picks(residuals_of(measured), pool, float(truth_of([twin])[0]), 8)
    assert [pick.gain for pick in picks] == sorted((pick.gain for pick in picks), reverse=True)
    assert abs(places(picks).index(1) - places(picks).index(0)) == 1


def test_a_median_of_several_timings_is_believed_more_than_one():
    strategies = sampled(30)
    pool = pool_of(strategies)
    log_seconds = pool.predicted + 0.2 * np.random.default_rng(2).standard_normal(30)
    far_off = int(np.abs(log_seconds - pool.predicted).argmax())
    timings = [1] * 30
    once = Residuals(CODER, pool, log_seconds, timings)
    timings[far_off] = 30
    often = Residuals(CODER, pool, log_seconds, timings)
    misses = [abs(residuals.posterior_mean(pool)[far_off] - log_seconds[far_off]) for residuals in (once, often)]
    assert misses[1] < 0.5 * misses[0]


def test_where_a_prediction_misses_by_noise_alone_it_stands():
    strategies, unseen = sampled(60), pool_of(sampled(60, 5))
    pool, noise = pool_of(strategies), 0.1 * np.random.default_rng(3).standard_normal(60)
    residuals = Residuals(CODER, pool, pool.predicted + 0.5 + noise)
    assert residuals.noise >= 2.0
    assert np.abs(residuals.posterior_mean(unseen) - unseen.predicted - 0.5).max() < 0.05


def test_residuals_correct_a_simulator_that_says_how_sure_it_is_less_than_one_that_does_not():
    strategies, unseen = sampled(30), pool_of(sampled(40, 5))
    pool, truth = pool_of(strategies), truth_of(strategies)
    plain = Residuals(CODER, pool, truth)
    learned = Residuals(CODER, Pool(pool.decisions, pool.predicted, np.full(30, 0.1)), truth)
    unsure = Pool(unseen.decisions, unseen.predicted, np.full(40, 0.1))
    moved = [
        float(np.std(residuals.posterior_mean(all_) - all_.predicted))
        for residuals, all_ in ((plain, unseen), (learned, unsure))
    ]
    assert moved[1] < 0.5 * moved[0]
    assert learned.noise >= 2.0


def test_a_simulator_that_says_where_it_is_unsure_is_explored_there():
    strategies, unseen = sampled(12), pool_of(sampled(2, 3))
    known = pool_of(strategies)
    sure = Pool(known.decisions, known.predicted, np.full(12, 0.1))
    residuals = Residuals(CODER, sure, known.predicted + 0.001 * np.arange(12) % 0.003)
    unsure = residuals.posterior(Pool(unseen.decisions, unseen.predicted, np.array([0.1, 0.3])))[1]
    alike = residuals.posterior(Pool(unseen.decisions, unseen.predicted, np.array([0.1, 0.1])))[1]
    assert unsure[0] == pytest.approx(alike[0])
    assert unsure[1] == pytest.approx(3 * alike[1])


def test_deviations_are_those_of_a_gaussian_process_that_was_told_what_was_measured():
    measured, unseen = sampled(10), sampled(20, 8)
    residuals = residuals_of(measured)
    points = CODER.decisions(measured)
    kernel = CODER.kernel(points, points, residuals.length) + residuals.noise * np.eye(10)
    cross = CODER.kernel(points, CODER.decisions(unseen), residuals.length)
    variances = 1 - (cross * np.linalg.solve(kernel, cross)).sum(0)
    assert residuals.posterior(pool_of(unseen))[1] == pytest.approx(residuals.scale * np.sqrt(variances))


def test_expected_improvement_of_worked_examples():
    gains = expected_improvement(np.array([0.0, -1.0, 9.0]), np.array([1.0, 1e-9, 0.1]), 0.0)
    assert gains == pytest.approx([1 / np.sqrt(2 * np.pi), 1.0, 0.0])
