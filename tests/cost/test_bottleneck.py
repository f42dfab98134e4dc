"""The busiest resource of a step, and the variables and servers that keep it busy."""

from __future__ import annotations

import pytest

from autosync.baselines import BASELINES
from autosync.cost import Coefficients, bottleneck, breakdown
from autosync.spec import AllReduce, ParameterServer, Strategy, VariableStrategy
from tests.cases import bert_like_model, mlp_model, star_cluster, uneven_cluster

LINKS_ALONE = Coefficients(
    core_seconds_per_message=1e-9, core_seconds_per_byte=1e-15, core_seconds_per_reduced_byte=1e-15
)
CORES_ALONE = Coefficients(core_seconds_per_byte=1e-6)
SUMS_ALONE = Coefficients(
    core_seconds_per_message=1e-9, core_seconds_per_byte=1e-15, core_seconds_per_reduced_byte=1e-4
)


def on(device: str) -> Strategy:
    replicas = tuple(str(replica_device) for replica_device in star_cluster().replica_devices)
    shards = (ParameterServer(device),)
    return Strategy(replicas, tuple(VariableStrategy(variable.name, shards) for variable in mlp_model().variables))


def test_with_one_server_it_is_a_link_of_its_node_and_each_variable_has_its_share_of_bytes() -> None:
    found = bottleneck(mlp_model(), star_cluster(), on("node2/cpu:0"), LINKS_ALONE)
    assert (found.kind, found.servers) == ("link", {"node2/cpu:0"})
    assert found.name in {"node2 > switch", "switch > node2"}
    total = sum(variable.bytes for variable in mlp_model().variables)
    assert found.shares == {variable.name: pytest.approx(variable.bytes / total) for variable in mlp_model().variables}


def test_costly_bytes_make_the_servers_node_the_bottleneck_and_costly_sums_the_server() -> None:
    strategy = on("node1/cpu:0")
    found = bottleneck(mlp_model(), star_cluster(), strategy, CORES_ALONE)
    assert (found.kind, found.name, found.servers) == ("node", "node1", {"node1/cpu:0"})
    found = bottleneck(mlp_model(), star_cluster(), strategy, SUMS_ALONE)
    assert (found.kind, found.name) == ("server", "node1/cpu:0")


def test_an_all_reduce_over_a_slow_link_loads_that_link_by_all_variables_and_no_server() -> None:
    model, cluster = mlp_model(), uneven_cluster()
    replicas = tuple(str(replica_device) for replica_device in cluster.replica_devices)
    variables = [VariableStrategy(variable.name, (AllReduce(0),)) for variable in model.variables]
    found = bottleneck(model, cluster, Strategy(replicas, tuple(variables)), LINKS_ALONE)
    assert found.kind == "link"
    assert "node3" in found.name
    assert found.servers == frozenset()
    assert sum(found.shares.values()) == pytest.approx(1.0)


@pytest.mark.parametrize("name", BASELINES)
def test_it_is_as_busy_as_the_breakdown_says_and_all_shares_make_one(name: str) -> None:
    model, cluster = bert_like_model(2), uneven_cluster()
    strategy, coefficients = BASELINES[name](model, cluster), Coefficients()
    found = bottleneck(model, cluster, strategy, coefficients)
    parts = breakdown(model, cluster, strategy, coefficients)
    assert found.seconds == max(parts.links.max(), parts.nodes.max(), parts.servers.max())
    assert sum(found.shares.values()) == pytest.approx(1.0)
    assert set(found.shares) <= set(model.by_name)
