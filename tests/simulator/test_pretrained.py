"""A simulator that was fitted on a dataset, saved and loaded keeps its knowledge and continues from there."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from autosync.cost import AnalyticSimulator, Replay
from autosync.simulator import NETWORKS, LearnedSimulator
from autosync.spec import RuntimeRecord, Strategy
from tests import cases
from tests.simulator.cases import CLUSTER, MODEL, QUICK, law, records
from tests.space.samples import sampled

pytestmark = pytest.mark.thorough

SLOWER = 1.6


def slower(originals: list[RuntimeRecord]) -> list[RuntimeRecord]:
    """Return the same strategies on a machine that takes longer for everything."""
    return [
        replace(record, step_seconds=tuple(SLOWER * seconds for seconds in record.step_seconds)) for record in originals
    ]


@pytest.fixture(scope="module", params=NETWORKS)
def saved(request: pytest.FixtureRequest) -> LearnedSimulator:
    made = LearnedSimulator(Replay(), request.param, settings=QUICK)
    made.fit(records(40) + records(40, cluster=cases.rack_cluster()))
    return made


@pytest.fixture
def checkpoint(saved: LearnedSimulator, tmp_path: Path) -> Path:
    saved.save(tmp_path)
    return tmp_path


@cache
def others_and_truth() -> tuple[list[Strategy], np.ndarray]:
    unseen = sampled(MODEL, CLUSTER, 60, seed=2)
    return unseen, law(MODEL, CLUSTER, unseen)


def error(made: LearnedSimulator, level: float = 0.0) -> float:
    unseen, truth = others_and_truth()
    return float(np.abs(made.predict(MODEL, CLUSTER, unseen) - truth - level).mean())


def test_it_predicts_as_the_saved_one_did_and_knows_its_base(saved: LearnedSimulator, checkpoint: Path) -> None:
    loaded = LearnedSimulator.load(checkpoint)
    assert isinstance(loaded.base, Replay)
    unseen = sampled(MODEL, CLUSTER, 10)
    expected = saved.predict_with_spread(MODEL, CLUSTER, unseen)
    np.testing.assert_array_equal(loaded.predict_with_spread(MODEL, CLUSTER, unseen), expected)


@pytest.mark.parametrize(
    "saved", ["linear", "rnn"], indirect=True
)  # the other networks take minutes and test nothing more
def test_a_few_records_of_a_run_do_not_make_it_forget(checkpoint: Path) -> None:
    before, after, refitted = error(LearnedSimulator.load(checkpoint)), [], []
    for seed in range(3, 23):  # four records can mislead, but most of twenty such sets do not
        few = records(4, seed)
        loaded = LearnedSimulator.load(checkpoint)
        loaded.fit(few)
        after.append(error(loaded))
        if seed < 9:  # a few seeds suffice, because these errors are far larger
            fresh = LearnedSimulator(Replay(), loaded.network, settings=QUICK)
            fresh.fit(few)
            refitted.append(error(fresh))
    assert np.median(after) < 1.3 * before
    assert np.median(after) < 0.9 * np.median(refitted)


def test_a_few_records_teach_it_another_machines_speed(checkpoint: Path) -> None:
    loaded, level = LearnedSimulator.load(checkpoint), float(np.log(SLOWER))
    before = error(loaded, level)
    loaded.fit(slower(records(8, seed=7)))
    assert error(loaded, level) < 0.5 * before


def test_fitting_goes_from_the_checkpoint_however_often_it_was_fitted_before(checkpoint: Path) -> None:
    once, often = LearnedSimulator.load(checkpoint), LearnedSimulator.load(checkpoint)
    often.fit(slower(records(6, seed=7)))
    for simulator in (once, often):
        simulator.fit(records(10, seed=9))
    unseen = sampled(MODEL, CLUSTER, 5)
    expected = once.predict_with_spread(MODEL, CLUSTER, unseen)
    np.testing.assert_array_equal(often.predict_with_spread(MODEL, CLUSTER, unseen), expected)


def test_fitted_on_nothing_it_is_as_it_was_loaded(checkpoint: Path) -> None:
    loaded, unseen = LearnedSimulator.load(checkpoint), sampled(MODEL, CLUSTER, 5)
    before = loaded.predict(MODEL, CLUSTER, unseen)
    loaded.fit(slower(records(6)))
    loaded.fit([])
    np.testing.assert_array_equal(loaded.predict(MODEL, CLUSTER, unseen), before)


def test_a_base_of_the_saved_kind_may_be_handed_over(tmp_path: Path) -> None:
    made = LearnedSimulator(AnalyticSimulator(), settings=QUICK)
    made.fit(records(10))
    made.save(tmp_path)
    unseen = sampled(MODEL, CLUSTER, 5)
    for base in (None, AnalyticSimulator()):
        loaded = LearnedSimulator.load(tmp_path, base)
        assert isinstance(loaded.base, AnalyticSimulator)
        np.testing.assert_array_equal(loaded.predict(MODEL, CLUSTER, unseen), made.predict(MODEL, CLUSTER, unseen))
