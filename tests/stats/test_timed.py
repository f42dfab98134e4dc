"""Weights of records: records without a time are left out, the heaviest come first, and medians halve the weight."""

from __future__ import annotations

import numpy as np
import pytest

from autosync.stats.drift import Timed, heaviest, weighted_median
from tests.contracts.test_simulator_contract import CLUSTER, MODEL, record
from tests.space.samples import sampled


def test_records_without_a_time_or_without_weight_are_left_out() -> None:
    first, second, third = sampled(MODEL, CLUSTER, 3)
    records = [record(first, (1.0,)), record(second, (), "failed"), record(third, (2.0,))]
    kept = Timed.of(records)
    assert (kept.records, kept.weights.tolist()) == ([records[0], records[2]], [1.0, 1.0])
    kept = Timed.of(records, [0.0, 1.0, 0.5])
    assert (kept.records, kept.weights.tolist()) == ([records[2]], [0.5])


def test_the_heaviest_records_are_taken_and_equal_ones_evenly_spaced() -> None:
    assert heaviest(np.ones(6), 10) == [0, 1, 2, 3, 4, 5]
    assert heaviest(np.ones(6), 3) == [0, 2, 4]
    assert heaviest(np.array([0.2, 1.0, 0.2, 1.0, 0.2, 0.2]), 4) == [0, 1, 3, 4]
    assert heaviest(np.array([0.2, 1.0, 0.2, 1.0]), 1) == [1]
    assert heaviest(np.zeros(0), 4) == []


@pytest.mark.parametrize("values", [[3.0], [3.0, 1.0], [5.0, 1.0, 3.0], [4.0, 1.0, 8.0, 2.0]])
def test_with_equal_weights_the_weighted_median_is_the_median(values: list[float]) -> None:
    median = weighted_median(np.array(values), np.full(len(values), 0.3))
    assert median == pytest.approx(float(np.median(values)))


def test_the_heavier_a_value_the_nearer_the_weighted_median_comes_to_it() -> None:
    values = np.array([1.0, 2.0, 7.0])
    medians = [weighted_median(values, np.array([1.0, 1.0, heavy])) for heavy in (1.0, 2.0, 10.0, 1000.0)]
    assert medians[0] == 2.0
    assert medians == sorted(medians)
    assert medians[-1] == pytest.approx(7.0, abs=0.1)
