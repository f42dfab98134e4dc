"""The computation of a replica, from flops or from a profile."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autosync.baselines import BASELINES
from autosync.cost import AnalyticSimulator
from autosync.cost.capacity import core_flops, ready_fractions
from autosync.spec import ModelProfile, ModelSpec, RuntimeRecord, Strategy, TimingProtocol
from autosync.stats.drift import positions_by_family
from tests import cases

MODEL = cases.mlp_model()
CLUSTER = cases.star_cluster(2)
STRATEGY = BASELINES["all_reduce_64mb"](MODEL, CLUSTER)


def profiled(seconds: float, ready: float = 0.5) -> ModelSpec:
    return replace(
        MODEL, profile=ModelProfile(seconds, 2 * seconds, {variable.name: ready for variable in MODEL.variables})
    )


def _record(model: ModelSpec, strategy: Strategy) -> RuntimeRecord:
    return RuntimeRecord(
        model, CLUSTER, strategy, TimingProtocol(), "ok", "search", "random", "run", 0, 0.0, step_seconds=(0.1,)
    )


def test_without_a_profile_flops_are_those_of_the_operators():
    assert core_flops(MODEL) == MODEL.flops


def test_a_profile_that_takes_twice_as_long_counts_twice_the_flops():
    assert core_flops(profiled(0.2)) == pytest.approx(2 * core_flops(profiled(0.1)))


def test_a_profile_says_when_gradients_are_ready():
    assert set(ready_fractions(profiled(0.1, ready=0.25)).values()) == {0.25}


def test_a_slower_profile_makes_a_longer_step():
    quick, slow = (
        AnalyticSimulator().predict(profiled(pass_seconds), CLUSTER, [STRATEGY])[0] for pass_seconds in (0.1, 1.0)
    )
    assert slow > quick + 1


def test_records_of_a_model_that_was_profiled_twice_are_one_family():
    records = [_record(profiled(seconds), STRATEGY) for seconds in (0.1, 0.2)]
    families = positions_by_family(records)
    assert list(families.values()) == [[0, 1]]
    assert next(iter(families))[0].profile == records[0].model.profile
