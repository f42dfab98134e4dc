"""Traffic between racks shares their uplinks: figures computed by hand for two racks of two nodes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import pytest

from autosync.cost import AnalyticSimulator, Coefficients, traffic
from autosync.spec import (
    AllReduce,
    ClusterSpec,
    Figure,
    ModelSpec,
    ParameterServer,
    Strategy,
    Variable,
    VariableStrategy,
    canonical_strategy,
)
from tests.cases import racks, star_cluster
from tests.cost.cases import dense_model, link_bytes, strategy_of

FREE = Coefficients(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, overlap=1.0)
MODEL = dense_model(50_000_000)
MODEL_BYTES = 200e6
UPLINK_BYTES_PER_SECOND = 0.3e9 / 8
BESIDE_ONE = ("node0/cpu:0", "node1/cpu:0", "node2/cpu:0", "node3/cpu:0")
NEAR_AND_FAR = ("rabenseifner", "halving_doubling")
ALTERNATING = ("node0/cpu:0", "node2/cpu:0", "node1/cpu:0", "node3/cpu:0")


def seconds(cluster: ClusterSpec, strategy: Strategy, model: ModelSpec = MODEL) -> float:
    return math.exp(AnalyticSimulator(FREE).predict(model, cluster, [strategy])[0])


def ring(replicas: Sequence[str]) -> Strategy:
    return Strategy(tuple(replicas), (VariableStrategy("w", (AllReduce(0),)),))


def halved(cluster: ClusterSpec, algorithm: str) -> Strategy:
    replicas = tuple(str(device) for device in cluster.replica_devices)
    return Strategy(replicas, (VariableStrategy("w", (AllReduce(0, algorithm),)),))


def test_a_ring_that_visits_one_rack_after_the_other_crosses_each_uplink_once() -> None:
    cluster = racks(2, 2)
    found = link_bytes(traffic(MODEL, cluster, ring(BESIDE_ONE)), cluster)
    # Every replica sends 2 x 3/4 of the model to the next. Only node1 -> node2 and node3 -> node0 leave their rack.
    sent = 1.5 * MODEL_BYTES
    assert [found[way] for way in ("rack0>core", "core>rack1", "rack1>core", "core>rack0")] == [sent] * 4
    assert {found[f"node{index}>rack{index // 2}"] for index in range(4)} == {sent}
    assert seconds(cluster, ring(BESIDE_ONE)) == pytest.approx(sent / UPLINK_BYTES_PER_SECOND, rel=0.001)


def test_a_ring_that_alternates_between_racks_takes_twice_as_long() -> None:
    cluster = racks(2, 2)
    found = link_bytes(traffic(MODEL, cluster, ring(ALTERNATING)), cluster)
    assert found["rack0>core"] == found["core>rack0"] == 2 * 1.5 * MODEL_BYTES
    assert found["node0>rack0"] == 1.5 * MODEL_BYTES
    assert seconds(cluster, ring(ALTERNATING)) == pytest.approx(3 * MODEL_BYTES / UPLINK_BYTES_PER_SECOND, rel=0.001)


def test_rabenseifner_sends_the_large_halves_inside_racks() -> None:
    cluster = racks(2, 2)
    near, far = (link_bytes(traffic(MODEL, cluster, halved(cluster, algorithm)), cluster) for algorithm in NEAR_AND_FAR)
    for found in (near, far):
        assert {found[f"node{index}>rack{index // 2}"] for index in range(4)} == {1.5 * MODEL_BYTES}
    # Each of a rack's two nodes sends a quarter (near) or a half (far) of the model to the other rack, twice.
    uplinks = ("rack0>core", "core>rack1", "rack1>core", "core>rack0")
    assert [near[way] for way in uplinks] == [MODEL_BYTES] * 4
    assert [far[way] for way in uplinks] == [2 * MODEL_BYTES] * 4


def test_in_rabenseifner_each_of_three_racks_sends_a_third_of_its_sums_to_each_other() -> None:
    cluster = racks(2, 2, 2)
    found = link_bytes(traffic(MODEL, cluster, halved(cluster, "rabenseifner")), cluster)
    # Nodes of a rack exchange halves, and each node sends two thirds of its half to other racks; means take as much.
    assert [found[f"node{index}>rack{index // 2}"] for index in range(6)] == pytest.approx([5 / 3 * MODEL_BYTES] * 6)
    assert [found[f"rack{rack}>core"] for rack in range(3)] == pytest.approx([4 / 3 * MODEL_BYTES] * 3)


def test_unlike_racks_send_each_other_the_model_once() -> None:
    cluster = racks(2, 3)
    found = link_bytes(traffic(MODEL, cluster, halved(cluster, "rabenseifner")), cluster)
    assert [found[way] for way in ("rack0>core", "rack1>core")] == pytest.approx([MODEL_BYTES] * 2)
    assert max(found[f"node{index}>rack{index // 2}"] for index in (0, 1)) == pytest.approx(1.5 * MODEL_BYTES)


def test_a_slow_node_sends_the_model_once() -> None:
    star = star_cluster(5)
    links = (
        replace(link, gbit_per_s=Figure(0.05, "stated")) if "node1" in (link.source, link.target) else link
        for link in star.links
    )
    cluster = replace(star, links=tuple(links))
    for algorithm, buckets in (("rabenseifner", 1.0), ("blueconnect", 1.0), ("ring", 1.6), ("halving_doubling", 1.6)):
        found = link_bytes(traffic(MODEL, cluster, halved(cluster, algorithm)), cluster)
        assert found["node1>switch"] == found["switch>node1"] == pytest.approx(buckets * MODEL_BYTES)


def test_the_order_of_a_ring_does_not_matter_where_no_uplink_is_shared() -> None:
    cluster = racks(4)
    assert seconds(cluster, ring(ALTERNATING)) == pytest.approx(seconds(cluster, ring(BESIDE_ONE)))


def test_a_server_is_pushed_to_and_sends_back_over_the_uplink_to_the_other_racks_replicas() -> None:
    cluster = racks(2, 2)
    strategy = strategy_of(cluster, ParameterServer("node0/cpu:0"))
    found = link_bytes(traffic(MODEL, cluster, strategy), cluster)
    # Both replicas of rack1 pull the model from rack0 and push gradients to rack0.
    for way in ("rack0>core", "core>rack1", "rack1>core", "core>rack0"):
        assert found[way] == 2 * MODEL_BYTES
    assert found["node0>rack0"] == 3 * MODEL_BYTES
    # Both directions are used at once; the server's own link is faster than its rack's uplink.
    assert seconds(cluster, strategy) == pytest.approx(2 * MODEL_BYTES / UPLINK_BYTES_PER_SECOND, rel=0.001)


def test_servers_in_both_racks_use_both_directions_of_the_uplinks_at_once() -> None:
    cluster = racks(2, 2)
    strategy = strategy_of(cluster, ParameterServer("node0/cpu:0"), ParameterServer("node2/cpu:0"))
    found = link_bytes(traffic(MODEL, cluster, strategy), cluster)
    # Out of rack0: its half of the model, pulled by two replicas, and its two gradients of the other half.
    assert found["rack0>core"] == found["rack1>core"] == 2 * MODEL_BYTES
    assert seconds(cluster, strategy) == pytest.approx(2 * MODEL_BYTES / UPLINK_BYTES_PER_SECOND, rel=0.001)


def test_a_wide_uplink_leaves_the_nodes_own_links_as_the_limit() -> None:
    cluster = racks(2, 2, uplink_gbit_per_s=10.0)
    assert seconds(cluster, ring(ALTERNATING)) == pytest.approx(1.5 * MODEL_BYTES / 125e6, rel=0.001)


def test_clusters_that_differ_in_their_racks_alone_have_different_digests() -> None:
    digests = [racks(4).digest, racks(2, 2).digest, racks(3, 1).digest, racks(2, 2, uplink_gbit_per_s=1.0).digest]
    assert len(set(digests)) == len(digests)


@pytest.mark.parametrize("sizes", [(2, 2), (3, 1), (3, 2)])
@pytest.mark.parametrize("uneven", [False, True])
def test_strategies_with_one_canonical_name_have_one_time(sizes: tuple[int, ...], uneven: bool) -> None:
    cluster = racks(*sizes)
    if uneven:
        slow = {("node1", "rack0"), ("core", "rack1")}
        links = tuple(
            replace(link, gbit_per_s=Figure(0.1, "stated")) if (link.source, link.target) in slow else link
            for link in cluster.links
        )
        cluster = replace(cluster, links=links)
    variables = tuple(Variable(name, (100_000,), "float32", order) for order, name in enumerate("abc"))
    model = ModelSpec("three", 8, "optimizer", 0, variables)
    servers = [str(device) for device in cluster.server_devices]
    times: dict[str, float] = {}
    for first, second in product(servers, repeat=2):
        decisions = (ParameterServer(first), ParameterServer(second), AllReduce(0))
        decided = tuple(VariableStrategy(name, (shard,)) for name, shard in zip("abc", decisions, strict=True))
        for replicas in (tuple(servers), (*servers[::2], *servers[1::2])):
            strategy = Strategy(replicas, decided)
            key = f"{replicas} {canonical_strategy(strategy, cluster).digest}"
            found = seconds(cluster, strategy, model)
            assert times.setdefault(key, found) == pytest.approx(found)
    assert 1 < len(times) < 2 * len(servers) ** 2
