"""A replay depends on the actions of a strategy, not on names and numbers."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from autosync.cost.replay import Replay, step_of
from autosync.spec import (
    AllReduce,
    ClusterSpec,
    ModelSpec,
    ParameterServer,
    Strategy,
    Synchronizer,
    Variable,
    VariableStrategy,
)
from search_spaces.default import SPACE
from tests import cases

CLUSTERS = [cases.star_cluster(), cases.uneven_cluster(), cases.rack_cluster(), cases.gpu_cluster()]


def sampled(model: ModelSpec, cluster: ClusterSpec, count: int = 12) -> list[Strategy]:
    space, rng = SPACE.bind(model, cluster), random.Random(5)
    return [space.sample(rng) for _ in range(count)]


def predicted(model: ModelSpec, cluster: ClusterSpec, strategies: list[Strategy]) -> list[float]:
    return Replay().predict(model, cluster, strategies).tolist()


@pytest.mark.parametrize("cluster", CLUSTERS, ids=["star", "uneven", "racks", "gpus"])
def test_the_same_strategies_have_the_same_times_again_and_in_any_company(cluster: ClusterSpec) -> None:
    model = cases.bert_like_model(2)
    strategies = sampled(model, cluster)
    found = predicted(model, cluster, strategies)
    assert predicted(model, cluster, strategies[::-1])[::-1] == found
    assert [predicted(model, cluster, [strategy])[0] for strategy in strategies] == found


@pytest.mark.parametrize("cluster", CLUSTERS, ids=["star", "uneven", "racks", "gpus"])
def test_names_and_the_order_of_variables_and_numbers_of_groups_do_not_matter(cluster: ClusterSpec) -> None:
    model = cases.bert_like_model(2)
    rng = random.Random(0)
    names = {variable.name: f"{rng.random()}" for variable in model.variables}
    renamed = replace(
        model,
        variables=tuple(replace(variable, name=names[variable.name]) for variable in model.variables),
        operators=tuple(
            replace(operator, variables=tuple(names[name] for name in operator.variables))
            for operator in model.operators
        ),
    )

    def disguised(strategy: Strategy) -> Strategy:
        def moved(shard: Synchronizer) -> Synchronizer:
            return replace(shard, group=1000 - shard.group) if isinstance(shard, AllReduce) else shard

        variables = [
            replace(variable, variable=names[variable.variable], shards=tuple(map(moved, variable.shards)))
            for variable in strategy.variables
        ]
        rng.shuffle(variables)
        return Strategy(strategy.replicas, tuple(variables))

    strategies = sampled(model, cluster)
    found = predicted(renamed, cluster, [disguised(sample) for sample in strategies])
    assert found == pytest.approx(predicted(model, cluster, strategies), rel=1e-9)


@pytest.mark.parametrize("workers", [1, 2])
def test_renumbering_devices_that_are_alike_does_not_matter(workers: int) -> None:
    cluster, model = cases.star_cluster(4, workers=workers), cases.bert_like_model(2)
    names = [str(device) for device in cluster.server_devices]
    # Nodes are rotated, so that rings keep their order.
    to = {name: f"node{(int(name[4]) + 1) % 4}{name[5:]}" for name in names}

    def rotated(strategy: Strategy) -> Strategy:
        def moved(shard: Synchronizer) -> Synchronizer:
            return replace(shard, device=to[shard.device]) if isinstance(shard, ParameterServer) else shard

        variables = tuple(
            replace(variable, shards=tuple(map(moved, variable.shards))) for variable in strategy.variables
        )
        return Strategy(tuple(to[replica] for replica in strategy.replicas), variables)

    strategies = sampled(model, cluster)
    found = predicted(model, cluster, list(map(rotated, strategies)))
    assert found == pytest.approx(predicted(model, cluster, strategies), rel=1e-9)


def test_the_size_of_a_replays_graph_is_bounded() -> None:
    cluster, count = cases.star_cluster(2), 600
    variables = tuple(Variable(f"v{number}", (2_000_000,), "float32", number) for number in range(count))
    model = ModelSpec("many", 8, "SGD", 0, variables)
    for synchronizer in (AllReduce, lambda _: ParameterServer("node0/cpu:0")):
        decided = tuple(
            VariableStrategy(variable.name, (synchronizer(place),)) for place, variable in enumerate(variables)
        )
        graph = step_of(model, cluster, Strategy(tuple(map(str, cluster.replica_devices)), decided)).graph
        assert graph.passes <= 50
        assert len(graph.shipments) == count  # not one per piece
