"""Occasions of trials, and the drift of the machine between occasions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autosync.spec import RuntimeRecord
from autosync.stats.drift import drifts_of, occasions_of
from tests import cases
from tests.simulator.cases import records

HOUR = 3600.0


def at(record: RuntimeRecord, started_at: float, run: str = "r") -> RuntimeRecord:
    return replace(record, started_at=started_at, total_seconds=5.0, run=run)


def test_an_occasion_ends_with_a_pause_and_is_of_one_run_model_and_cluster() -> None:
    first, two, *_ = records(2)
    moved = records(1, cluster=cases.rack_cluster())[0]
    timings = [
        at(two, HOUR),
        at(first, 0.0),
        at(two, 10.0),
        at(first, 2 * HOUR),
        at(first, 12.0, run="s"),
        at(moved, 11.0),
    ]
    numbers = occasions_of(timings).tolist()
    assert numbers[1] == numbers[2]
    assert len(set(numbers)) == 5
    assert occasions_of([]).tolist() == []


def test_a_few_records_of_an_occasion_drawn_at_random_still_are_of_one() -> None:
    whole = [at(record, 20.0 * number) for number, record in enumerate(records(40))]
    assert set(occasions_of(whole[::13]).tolist()) == {0}


def test_the_drift_of_an_occasion_is_found_and_shrinks_with_its_records() -> None:
    rng = np.random.default_rng(0)
    occasions = np.repeat([0, 1, 2], [40, 40, 2])
    residuals = np.array([0.1, -0.1, 0.1])[occasions] + rng.normal(0, 0.03, 82)
    drifts = drifts_of(residuals, occasions, np.ones(82))
    assert [len(np.unique(drifts[occasions == occasion])) for occasion in range(3)] == [1, 1, 1]
    assert drifts[0] - drifts[40] == pytest.approx(0.2, abs=0.03)
    assert 0.02 < drifts[81] < drifts[0]
    light = drifts_of(residuals, occasions, np.where(occasions == 0, 0.01, 1.0))
    assert abs(light[0]) < 0.5 * drifts[0]


def test_one_occasion_alone_has_no_drift() -> None:
    assert drifts_of(np.array([0.3, 0.4]), np.array([7, 7]), np.ones(2)).tolist() == [0.0, 0.0]
