"""Baselines of communication schedulers overlap with the next forward pass, in small parts; others have a barrier."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autosync.baselines import BASELINES, DDP_BASELINES, PRIORITY_BASELINES, baselines_for, different_strategies
from autosync.baselines.tuned import all_reduce_grid
from autosync.engine.core.registry import engine_named
from autosync.spec import (
    AllReduce,
    ModelSpec,
    ParameterServer,
    Partition,
    Variable,
    canonical_strategy,
    strategy_faults,
)
from tests import cases
from tests.baselines.test_baselines import CLUSTERS, MODELS, groups, server_bytes

HERE = cases.star_cluster(4)
BIG = ModelSpec(
    "big",
    1,
    "SGD",
    0,
    (
        Variable("table", (9000, 1000), "float32", 2, True, 12.0),
        Variable("kernel", (2500, 1000), "float32", 1),
        Variable("bias", (1000,), "float32", 0),
    ),
)


@pytest.mark.parametrize("place", CLUSTERS)
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
@pytest.mark.parametrize("name", PRIORITY_BASELINES)
def test_they_are_valid_canonical_and_overlapped(name: str, model: ModelSpec, place: str) -> None:
    strategy = PRIORITY_BASELINES[name](model, CLUSTERS[place])
    assert strategy.overlap_next_forward
    assert not strategy.changes_statistics
    assert not list(strategy_faults(strategy, model, CLUSTERS[place]))
    assert canonical_strategy(strategy, CLUSTERS[place]) == strategy


@pytest.mark.parametrize("name", [*BASELINES, *DDP_BASELINES])
def test_all_other_baselines_have_a_barrier(name: str) -> None:
    assert not baselines_for("pytorch")[name](cases.bert_like_model(1), HERE).overlap_next_forward


def test_bytescheduler_reduces_parts_of_a_million_elements_each_by_itself() -> None:
    strategy = PRIORITY_BASELINES["bytescheduler"](BIG, HERE)
    assert {name: decision.partition for name, decision in strategy.by_name.items()} == {
        "table": None,
        "kernel": Partition(0, 3),
        "bias": None,
    }
    numbers = [group for of_variable in groups(strategy).values() for group in of_variable]
    assert len(set(numbers)) == len(numbers) == 5
    assert {shard.algorithm for _, _, shard in strategy.shards() if isinstance(shard, AllReduce)} == {"ring"}


def test_p3_spreads_slices_of_50_000_elements_over_all_servers() -> None:
    strategy = PRIORITY_BASELINES["p3"](BIG, HERE)
    assert strategy.by_name["kernel"].partition == Partition(0, 50)
    assert strategy.by_name["table"].partition is None
    assert all(isinstance(shard, ParameterServer) for _, _, shard in strategy.shards())
    dense = replace(BIG, variables=(replace(BIG.by_name["kernel"], ready_order=0),))
    loads = server_bytes(PRIORITY_BASELINES["p3"](dense, HERE), dense)
    assert len(loads) == 4
    assert max(loads.values()) - min(loads.values()) <= 200_000


def test_only_engines_that_carry_them_out_have_them() -> None:
    assert PRIORITY_BASELINES.keys().isdisjoint(baselines_for("tensorflow"))
    different = different_strategies(baselines_for("pytorch"), BIG, HERE)
    assert PRIORITY_BASELINES.keys() <= different.keys()
    assert not engine_named("tensorflow").sends_by_reads


def test_an_engineer_tries_each_all_reduce_with_an_overlap_too() -> None:
    barrier, both = (all_reduce_grid(BIG, HERE, overlaps=overlaps) for overlaps in ((False,), (False, True)))
    overlapped = {
        f"{name}, overlapped": replace(strategy, overlap_next_forward=True) for name, strategy in barrier.items()
    }
    assert both == barrier | overlapped
