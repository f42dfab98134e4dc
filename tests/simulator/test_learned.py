"""The learned simulator starts as its base, learns residuals, and estimates its uncertainty."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch

from autosync.cost import AnalyticSimulator
from autosync.simulator import LearnedSimulator
from tests.contracts.test_simulator_contract import CLUSTER, MODEL, law, record, records
from tests.simulator.cases import QUICK
from tests.space.samples import sampled


def test_before_any_record_it_is_its_base() -> None:
    strategies = sampled(MODEL, CLUSTER, 10)
    learned = LearnedSimulator(AnalyticSimulator())
    expected = AnalyticSimulator().predict(MODEL, CLUSTER, strategies)
    np.testing.assert_array_equal(learned.predict(MODEL, CLUSTER, strategies), expected)


def test_it_errs_less_than_its_base_on_a_law_the_base_cannot_express() -> None:
    learned = LearnedSimulator(AnalyticSimulator())
    learned.fit(records(100))
    unseen = sampled(MODEL, CLUSTER, 100, seed=2)
    errors = [
        np.abs(simulator.predict(MODEL, CLUSTER, unseen) - law(unseen)).mean() for simulator in (learned, learned.base)
    ]
    assert errors[0] < 0.7 * errors[1]


def test_predict_is_the_mean_of_predict_with_spread() -> None:
    learned = LearnedSimulator(AnalyticSimulator())
    learned.fit(records(20))
    unseen = sampled(MODEL, CLUSTER, 7)
    mean, spread = learned.predict_with_spread(MODEL, CLUSTER, unseen)
    np.testing.assert_array_equal(mean, learned.predict(MODEL, CLUSTER, unseen))
    assert spread.shape == (7,)
    assert (spread > 0).all()


def test_the_spread_shrinks_as_records_come_in() -> None:
    unseen, spreads = sampled(MODEL, CLUSTER, 50, seed=2), []
    for count in (0, 1, 10, 60):
        learned = LearnedSimulator(AnalyticSimulator(), settings=QUICK)
        learned.fit(records(count))
        spreads.append(learned.predict_with_spread(MODEL, CLUSTER, unseen)[1].mean())
    assert spreads == sorted(spreads, reverse=True)
    assert spreads[-1] < 0.25 * spreads[0]


def test_another_seed_gives_another_ensemble_and_the_global_seed_is_left_alone() -> None:
    unseen, predictions = sampled(MODEL, CLUSTER, 5), []
    state = torch.get_rng_state()
    for seed in (0, 1):
        learned = LearnedSimulator(AnalyticSimulator(), seed=seed, settings=QUICK)
        learned.fit(records(20))
        predictions.append(learned.predict(MODEL, CLUSTER, unseen))
    assert (predictions[0] != predictions[1]).any()
    assert torch.equal(torch.get_rng_state(), state)


def test_a_stopped_trial_counts_as_slow_as_it_was() -> None:
    """The test takes a mean over seeds, because a few records with a single outlier have other explanations too."""
    gains = []
    for seed in range(8, 13):
        slow, *unseen = sampled(MODEL, CLUSTER, 21, seed=seed)
        known = [record(strategy, (0.1,) * 5) for strategy in unseen] + [record(slow, (0.3,) * 5, "stopped")]
        learned, without = (LearnedSimulator(AnalyticSimulator(), settings=QUICK) for _ in range(2))
        learned.fit(known)
        without.fit(known[:-1])
        predicted, before = (simulator.predict(MODEL, CLUSTER, [slow])[0] for simulator in (learned, without))
        gains.append(predicted - before)
    assert np.mean(gains) > np.log(1.05)


@pytest.mark.thorough
def test_neither_importing_nor_fitting_leaves_another_thread_count_behind() -> None:
    code = "import torch; n = torch.get_num_threads(); import autosync.simulator; assert torch.get_num_threads() == n"
    subprocess.run([sys.executable, "-c", code], check=True)
    before = torch.get_num_threads()
    LearnedSimulator(AnalyticSimulator()).fit(records(3))
    assert torch.get_num_threads() == before
