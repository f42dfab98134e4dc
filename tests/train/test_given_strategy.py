"""A strategy is read from the user's argument, and refused in one sentence if it does not fit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autosync.errors import SpecError, TrainingError
from autosync.spec import AllReduce, ParameterServer, Strategy, VariableStrategy
from autosync.train.given_strategy import check_devices, read_strategy, rename_for, workers_named
from tests.cases import gpu_cluster, local_cluster


def strategy(*names: str, server: str = "node0/cpu:1") -> Strategy:
    decided = [VariableStrategy(name, (AllReduce(0),)) for name in names[:-1]]
    return Strategy(("node0/cpu:0",), (*decided, VariableStrategy(names[-1], (ParameterServer(server),))))


def test_a_strategy_is_itself_its_document_or_a_file_of_it(tmp_path: Path) -> None:
    whole = strategy("a", "b")
    (tmp_path / "strategy.json").write_text(json.dumps(whole.to_json()))
    assert read_strategy(whole) == read_strategy(whole.to_json()) == read_strategy(tmp_path / "strategy.json") == whole


def test_a_file_that_is_not_there_tells_how_to_find_one() -> None:
    with pytest.raises(SpecError, match=r"'nowhere\.json' cannot be read: .*; autosync tune finds"):
        read_strategy("nowhere.json")


def test_workers_of_one_node_are_counted_by_the_devices_named() -> None:
    assert workers_named(strategy("a", server="node0/cpu:4")) == 5
    assert workers_named(strategy("a", server="node1/cpu:0")) is None
    assert workers_named(Strategy(("node0/gpu:0",), strategy("a").variables)) is None


def test_devices_that_the_cluster_lacks_are_named() -> None:
    check_devices(strategy("a"), local_cluster(2))
    with pytest.raises(TrainingError, match=r"the cluster has no node0/cpu:7; it has node0/cpu:0, node0/cpu:1\. Give"):
        check_devices(strategy("a", server="node0/cpu:7"), local_cluster(2))


def test_a_gpu_replica_is_a_device_too() -> None:
    cluster = gpu_cluster()
    replica = str(cluster.replica_devices[-1])
    check_devices(Strategy((replica,), (VariableStrategy("a", (AllReduce(0),)),)), cluster)


def test_numbers_and_model_names_that_keras_adds_are_passed_over() -> None:
    renamed = rename_for(strategy("net/dense/kernel", "net/dense_1/kernel"), ["dense_4/kernel", "dense_5/kernel"])
    assert [variable.variable for variable in renamed.variables] == ["dense_4/kernel", "dense_5/kernel"]
    assert renamed.variables[1].shards == (ParameterServer("node0/cpu:1"),)


def test_a_strategy_of_these_very_variables_stays_as_it_is() -> None:
    whole = strategy("dense_1/kernel", "dense/kernel")
    assert rename_for(whole, ["dense/kernel", "dense_1/kernel"]) is whole


def test_another_models_strategy_is_refused_with_what_differs() -> None:
    with pytest.raises(TrainingError) as refused:
        rename_for(strategy("a", "b", "c", "d", "e"), ["a", "f"])
    assert str(refused.value) == (
        "A strategy belongs to one model, and this strategy is another model's: it decides b, c, d and 1 more, which "
        "this model does not train, and this model trains f, which it does not decide. Find a strategy for this model "
        "with autosync tune."
    )


def test_a_variable_without_a_path_to_the_loss_is_told_apart() -> None:
    with pytest.raises(TrainingError, match="it decides b, which this model does not train; some of these have no pa"):
        rename_for(strategy("a", "b"), ["a"], untrained=["b"])
