"""Gathers: every replica gets every part once, and a thin link out of a group carries a part once for each other
group."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from autosync.cost import ReplayCoefficients, traffic
from autosync.cost.replay import recipes, step, step_of
from autosync.layout.gather import Gather, gather_among
from autosync.layout.topology import Topology
from autosync.spec import AllReduce, ClusterSpec, Figure, Link, Node
from tests import cases
from tests.cost.cases import link_bytes, link_messages, sparse_model, strategy_of

CLUSTERS = {
    "one replica": cases.star_cluster(1),
    "star": cases.star_cluster(5),
    "one machine": cases.local_cluster(4),
    "three by two": cases.star_cluster(3, workers=2),
    "two racks": cases.racks(2, 2),
    "three racks": cases.racks(2, 2, 2),
    "unlike racks": cases.racks(3, 2),
    "a rack and nodes": cases.racks(3, 1, 2),
    "a large rack and a node": cases.racks(8, 1),
    "unlike links": cases.uneven_cluster(),
    "GPUs": cases.gpu_cluster(5, 8),
    "racks of nodes of two": replace(
        cases.racks(2, 2, 2), nodes=tuple(replace(node, workers=2) for node in cases.racks(2, 2, 2).nodes)
    ),
}


def _gather(cluster: ClusterSpec) -> tuple[Topology, Gather]:
    topology = Topology(cluster, tuple(map(str, cluster.replica_devices)))
    return topology, gather_among(topology)


def _crossings(cluster: ClusterSpec) -> Counter[str]:
    """The number of parts that each link carries."""
    topology, gather = _gather(cluster)
    parts: Counter[str] = Counter()
    for stage in gather.rounds:
        for _, source, target in stage:
            for link in cluster.route(topology.nodes[source], topology.nodes[target]):
                parts[f"{link.source}>{link.target}"] += 1
    return parts


@pytest.mark.parametrize("cluster", CLUSTERS.values(), ids=CLUSTERS)
def test_parts_between_places_are_counted_as_they_are_listed(cluster: ClusterSpec) -> None:
    topology, gather = _gather(cluster)
    listed = [
        Counter((topology.nodes[source], topology.nodes[target]) for _, source, target in stage)
        for stage in gather.rounds
    ]
    assert list(gather.part_counts(topology.nodes)) == listed
    replicas = range(len(topology))
    assert [stage.total() for stage in gather.part_counts(replicas)] == [len(stage) for stage in gather.rounds]


def _straight(cluster: ClusterSpec) -> bool:
    return not _gather(cluster)[1].relays


@pytest.mark.parametrize("cluster", CLUSTERS.values(), ids=CLUSTERS)
def test_every_replica_gets_every_part_once_from_a_replica_that_has_it(cluster: ClusterSpec) -> None:
    topology, gather = _gather(cluster)
    has = {(replica, replica) for replica in range(len(topology))}
    for stage in gather.rounds:
        before = frozenset(has)
        for origin, source, target in stage:
            assert (origin, source) in before
            assert (origin, target) not in has
            has.add((origin, target))
    assert len(has) == len(topology) ** 2


def test_on_a_switch_whose_nodes_have_a_replica_each_all_goes_straight() -> None:
    for count in (2, 3, 5, 8):
        assert _straight(cases.star_cluster(count))
    assert _straight(cases.local_cluster(6))


def test_a_racks_uplink_carries_each_part_once_for_each_other_rack() -> None:
    two, three = _crossings(cases.racks(2, 2)), _crossings(cases.racks(2, 2, 2))
    assert [two[way] for way in ("rack0>core", "core>rack1", "rack1>core", "core>rack0")] == [2] * 4
    assert {three[f"rack{rack}>core"] for rack in range(3)} == {three[f"core>rack{rack}"] for rack in range(3)} == {4}


def test_a_node_of_several_replicas_gets_each_part_of_others_once() -> None:
    found = _crossings(cases.star_cluster(3, workers=2))
    assert (
        {found[f"node{node}>switch"] for node in range(3)} == {found[f"switch>node{node}"] for node in range(3)} == {4}
    )


def test_racks_and_the_nodes_inside_have_relays_of_their_own() -> None:
    found = _crossings(CLUSTERS["racks of nodes of two"])
    # Each rack has four replicas, whose parts go to two other racks. Into a node come all parts except its own two.
    assert {found[f"rack{rack}>core"] for rack in range(3)} == {4 * 2}
    assert {found[f"rack{node // 2}>node{node}"] for node in range(6)} == {12 - 2}


def test_where_groups_are_of_one_size_all_send_as_much_as_straight() -> None:
    for name in ("three by two", "two racks", "three racks", "racks of nodes of two"):
        topology, gather = _gather(CLUSTERS[name])
        sent = Counter(hand.source for stage in gather.rounds for hand in stage)
        assert gather.relays
        assert set(sent.values()) == {len(topology) - 1}
        assert not gather.is_uneven
    assert _gather(CLUSTERS["unlike racks"])[1].is_uneven


def test_racks_whose_uplink_is_as_wide_as_their_nodes_need_no_relays() -> None:
    assert _straight(cases.racks(2, 2, uplink_gbit_per_s=2.0))
    assert _straight(cases.racks(3, 3, uplink_gbit_per_s=3.0))
    assert not _straight(cases.racks(2, 2, uplink_gbit_per_s=1.0))


def test_a_large_rack_and_a_single_node_gain_nothing_by_relays() -> None:
    # With or without relays, the rack's uplink carries one part of each of its nodes.
    assert _straight(cases.racks(8, 1))


def test_nodes_have_relays_and_wide_racks_none() -> None:
    wide = cases.racks(2, 2, uplink_gbit_per_s=4.0)
    found = _crossings(replace(wide, nodes=tuple(replace(node, workers=2) for node in wide.nodes)))
    assert found["rack0>core"] == 4 * 2  # four parts, to each of two nodes; relays of racks would make it four
    assert found["rack0>node0"] == 8 - 2


def test_it_follows_from_where_replicas_are_and_not_from_their_order() -> None:
    cluster = cases.racks(2, 2)
    topology = Topology(cluster, ("node0/cpu:0", "node2/cpu:0", "node1/cpu:0", "node3/cpu:0"))
    across = [hand for stage in gather_among(topology).rounds for hand in stage if (hand.source + hand.target) % 2]
    assert len(across) == 4


def test_the_same_topology_has_the_same_gather() -> None:
    node, rate = Node("a", "", 1.0, workers=2), Figure(1.0, "stated")
    cluster = ClusterSpec((node,), (Link("a", "a", rate, rate),), ())
    topology = Topology(cluster, ("a/cpu:0", "a/cpu:1"))
    assert gather_among(topology) is gather_among(topology)
    assert [tuple(handing) for handing in gather_among(topology).rounds[0]] == [(0, 0, 1), (1, 1, 0)]


def test_messages_over_an_uplink_are_two_for_each_part() -> None:
    cluster = cases.racks(2, 2)
    found = traffic(sparse_model(), cluster, strategy_of(cluster, AllReduce(0)))
    of_rows = 50 * (10 * 4 + 4)  # 50 rows of 10 floats, and their numbers
    for count, figures in ((2 * of_rows, link_bytes), (2 * 2, link_messages)):
        of_links = figures(found, cluster)
        assert [of_links[way] for way in ("rack0>core", "core>rack1", "rack1>core", "core>rack0")] == [count] * 4


def test_many_replicas_take_as_long_listed_or_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = cases.star_cluster(3, workers=12)
    strategy = strategy_of(cluster, AllReduce(0))
    counted = step_of(sparse_model(), cluster, strategy).seconds(ReplayCoefficients())
    monkeypatch.setattr(recipes, "MANY", 1000)
    step._catalogue.cache_clear()
    listed = step_of(sparse_model(), cluster, strategy).seconds(ReplayCoefficients())
    step._catalogue.cache_clear()
    assert counted == pytest.approx(listed)
