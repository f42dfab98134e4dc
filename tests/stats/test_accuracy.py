"""Pairwise accuracy, the best so far and medians, compared with worked examples."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from autosync.baselines import BASELINES
from autosync.search.protocol import Proposal
from autosync.stats.accuracy import best_so_far, pairwise_accuracy, strategy_medians
from search_spaces.default import SPACE
from tests.cases import mlp_model, star_cluster
from tests.search.laws import timed, truth

MODEL, CLUSTER = mlp_model(), star_cluster(2)
RECORD = timed(SPACE.bind(MODEL, CLUSTER), Proposal(BASELINES["byteps"](MODEL, CLUSTER), "byteps"), truth())


def test_pairwise_accuracy_counts_ties_half_and_leaves_out_equal_measurements():
    assert pairwise_accuracy([1, 2, 3, 4], [10, 20, 40, 30]) == pytest.approx(5 / 6)
    assert pairwise_accuracy([1, 1], [1, 2]) == 0.5
    assert pairwise_accuracy([1, 2, 3], [5, 5, 6]) == 1.0


def test_rank_agreement_of_too_little_is_not_a_number():
    assert math.isnan(pairwise_accuracy([], []))
    assert math.isnan(pairwise_accuracy([1, 2], [3, 3]))


def test_the_best_so_far_passes_over_failures():
    failed = replace(RECORD, outcome="failed", reason="out of memory", step_seconds=())
    records = [failed, *(replace(RECORD, step_seconds=(seconds,)) for seconds in (0.4, 0.5, 0.2)), failed]
    assert best_so_far(records).tolist() == [math.inf, 0.4, 0.4, 0.2, 0.2]
    assert best_so_far([]).tolist() == []


def test_a_strategy_takes_the_median_over_its_complete_records():
    again = [replace(RECORD, step_seconds=(seconds,), started_at=seconds) for seconds in (0.4, 0.5, 0.2)]
    stopped = replace(RECORD, outcome="stopped", reason="slow", step_seconds=(0.1,))
    second = replace(RECORD, strategy=BASELINES["parameter_server"](MODEL, CLUSTER), step_seconds=(0.3,))
    assert strategy_medians([*again, stopped, second]) == {RECORD.strategy.digest: 0.4, second.strategy.digest: 0.3}
    assert strategy_medians([stopped]) == {}
