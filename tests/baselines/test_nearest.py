"""The nearest baseline has the fewest different decisions, and lists the variables that differ."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autosync.baselines import BASELINES, PRIORITY_BASELINES
from autosync.baselines.nearest import nearest_baseline
from autosync.spec import AllReduce, ParameterServer, Partition, Strategy, VariableStrategy
from tests import cases

MODEL, CLUSTER = cases.bert_like_model(), cases.star_cluster(4)


def changed(label: str, **variables: VariableStrategy) -> Strategy:
    """The baseline with other decisions for some variables, by their position in graph order."""
    base = BASELINES[label](MODEL, CLUSTER)
    decisions = list(base.variables)
    for position, decision in variables.items():
        index = int(position.removeprefix("v"))
        decisions[index] = replace(decision, variable=decisions[index].variable)
    return replace(base, variables=tuple(decisions))


@pytest.mark.parametrize("label", BASELINES)
def test_a_baseline_is_nearest_to_itself(label: str) -> None:
    nearest = nearest_baseline(BASELINES[label](MODEL, CLUSTER), MODEL, CLUSTER)
    same = label if label != "poseidon" else "balanced_parameter_server"  # which it is for a model without factors
    assert (nearest.label, nearest.differences) == (same, ())


def test_devices_that_are_alike_and_numbers_of_buckets_are_no_difference() -> None:
    strategy = changed("parallax")

    def other(shard: AllReduce | ParameterServer) -> AllReduce | ParameterServer:
        if isinstance(shard, AllReduce):
            return replace(shard, group=7 - shard.group)
        return replace(shard, device={"node0/cpu:0": "node2/cpu:0"}[shard.device])

    renamed = tuple(replace(decision, shards=tuple(map(other, decision.shards))) for decision in strategy.variables)
    assert nearest_baseline(replace(strategy, variables=renamed), MODEL, CLUSTER).variables == 0


def test_differences_are_told_by_what_is_done_here_and_there() -> None:
    served = VariableStrategy("", (ParameterServer("node0/cpu:0"), ParameterServer("node1/cpu:0")), Partition(0, 2))
    tree = VariableStrategy("", (AllReduce(9, "tree"),))
    nearest = nearest_baseline(changed("all_reduce_64mb", v5=served, v6=tree, v7=tree), MODEL, CLUSTER)
    assert (nearest.label, nearest.variables) == ("all_reduce_64mb", 3)
    assert [(difference.variables, difference.here, difference.there) for difference in nearest.differences] == [
        (
            (MODEL.variables[6].name, MODEL.variables[7].name),
            "binomial-tree all-reduce",
            "ring all-reduce",
        ),
        ((MODEL.variables[5].name,), "cut in 2 along axis 0, on a parameter server", "ring all-reduce"),
    ]


def test_another_bucket_is_a_difference_that_is_told() -> None:
    nearest = nearest_baseline(changed("all_reduce_64mb", v74=VariableStrategy("", (AllReduce(99),))), MODEL, CLUSTER)
    assert [(difference.here, difference.there) for difference in nearest.differences] == [
        ("ring all-reduce", "ring all-reduce, in another bucket or on another server")
    ]


def test_trees_in_many_buckets_are_nearer_to_rings_than_to_servers() -> None:
    trees = {f"v{place}": VariableStrategy("", (AllReduce(place, "tree"),)) for place in range(len(MODEL.variables))}
    nearest = nearest_baseline(changed("all_reduce_64mb", **trees), MODEL, CLUSTER)
    assert nearest.label == "all_reduce_per_variable"
    assert nearest.variables == len(MODEL.variables)


@pytest.mark.parametrize("label", PRIORITY_BASELINES)
def test_an_overlapped_strategy_is_nearest_to_its_own_baseline_and_its_twin_to_one_with_a_barrier(label: str) -> None:
    strategy = PRIORITY_BASELINES[label](MODEL, CLUSTER)
    nearest = nearest_baseline(strategy, MODEL, CLUSTER)
    assert (nearest.label, nearest.is_same) == (label, True)
    assert nearest_baseline(replace(strategy, overlap_next_forward=False), MODEL, CLUSTER).label in BASELINES


def test_the_end_of_steps_is_a_difference() -> None:
    overlapped = replace(BASELINES["parallax"](MODEL, CLUSTER), overlap_next_forward=True)
    nearest = nearest_baseline(overlapped, MODEL, CLUSTER)
    assert (nearest.label, nearest.differences, nearest.is_same) == ("parallax", (), False)
    assert nearest.step_ends == ("overlap with the next forward pass", "end with a barrier")
