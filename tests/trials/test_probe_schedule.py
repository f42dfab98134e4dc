"""The choice of probes, and of the probes that run side by side."""

from __future__ import annotations

import pytest

from autosync.spec import ClusterSpec, Figure, Link, Node
from tests import cases
from trials.probe.flows import Probe, ends_of, fair_rates, links_crossed
from trials.probe.schedule import FEW_NODES, fill_probe, fillable_links, loopback_probes, pair_probes, rounds


def racks(count: int, nodes: int) -> ClusterSpec:
    """`count` racks of `nodes` nodes; one more switch joins theirs, at half the total rate of a rack's nodes."""
    near, far = Figure(1.0, "stated"), Figure(nodes / 2, "stated")
    latency = Figure(10.0, "stated")
    names = [f"rack{index}" for index in range(count)]
    machines = tuple(Node(f"node{index}", f"10.0.0.{index}", 4.0) for index in range(count * nodes))
    links = [Link(node.name, node.name, near, latency) for node in machines]
    for index, node in enumerate(machines):
        rack = names[index // nodes]
        links += [Link(node.name, rack, near, latency), Link(rack, node.name, near, latency)]
    for rack in names:
        links += [Link(rack, "core", far, latency), Link("core", rack, far, latency)]
    return ClusterSpec(machines, tuple(links), (*names, "core"))


CLUSTERS = {
    "two nodes": cases.star_cluster(2),
    "four nodes": cases.star_cluster(4),
    "uneven nodes": cases.uneven_cluster(),
    "two racks of two": cases.rack_cluster(),
    "thirteen nodes": cases.star_cluster(13),
    "thirty nodes": cases.star_cluster(30),
    "three racks of six": racks(3, 6),
    "a hundred nodes": cases.star_cluster(100),
    "ten racks of twelve": racks(10, 12),
}
TOPOLOGIES = pytest.mark.parametrize("cluster", CLUSTERS.values(), ids=CLUSTERS)


def fills_of(cluster: ClusterSpec) -> list[Probe]:
    stated = {ends_of(link): link.gbit_per_s.value for link in cluster.links}
    return [fill_probe(cluster, link, pairs, stated) for link, pairs in fillable_links(cluster).items()]


@TOPOLOGIES
def test_every_link_between_nodes_is_crossed_by_a_pair_and_has_a_probe_to_fill_it(cluster: ClusterSpec) -> None:
    between = {ends_of(link) for link in cluster.links if link.source != link.target}
    crossed = {ends for probe in pair_probes(cluster) for ends in links_crossed(cluster, probe.flows)}
    assert crossed == between
    assert {probe.fills for probe in fills_of(cluster)} == between


def test_the_first_pairs_cross_every_node_s_link_within_its_rack_however_thin_what_joins_the_racks() -> None:
    cluster = racks(4, 2)
    first = pair_probes(cluster)[:8]
    assert all(len(cluster.route(flow.source, flow.target)) == 2 for probe in first for flow in probe.flows)
    crossed = {ends for probe in first for ends in links_crossed(cluster, probe.flows)}
    nodes = {node.name for node in cluster.nodes}
    of_nodes = [ends for ends in map(ends_of, cluster.links) if nodes.intersection(ends) and ends[0] != ends[1]]
    assert crossed == set(of_nodes)


@TOPOLOGIES
def test_all_flows_of_a_filling_probe_cross_its_link_and_together_can_fill_it(cluster: ClusterSpec) -> None:
    rates = {ends_of(link): link.gbit_per_s.value for link in cluster.links}
    for probe in fills_of(cluster):
        assert probe.fills is not None
        assert links_crossed(cluster, probe.flows)[probe.fills] == pytest.approx(1.0)
        routes = [[ends_of(link) for link in cluster.route(flow.source, flow.target)] for flow in probe.flows]
        assert sum(fair_rates(routes, rates)) == pytest.approx(rates[probe.fills])


@TOPOLOGIES
def test_no_two_probes_of_a_round_share_a_link(cluster: ClusterSpec) -> None:
    for probes in (pair_probes(cluster), fills_of(cluster)):
        planned = list(rounds(cluster, probes, lambda probe: probe.flows))
        assert sorted(map(str, probes)) == sorted(str(probe) for members in planned for probe in members)
        for members in planned:
            crossed = [ends for probe in members for ends in links_crossed(cluster, probe.flows)]
            assert len(crossed) == len(set(crossed))


def test_few_nodes_are_probed_one_after_the_other() -> None:
    cluster = cases.star_cluster(FEW_NODES)
    planned = rounds(cluster, pair_probes(cluster), lambda probe: probe.flows)
    assert {len(members) for members in planned} == {1}


@pytest.mark.parametrize("nodes", [32, 64, 256])
def test_many_nodes_take_rounds_that_grow_with_their_logarithm(nodes: int) -> None:
    cluster = cases.star_cluster(nodes)
    planned = list(rounds(cluster, pair_probes(cluster), lambda probe: probe.flows))
    assert len(planned) == nodes.bit_length() - 1


@pytest.mark.parametrize("nodes", [32, 64, 256])
def test_filling_the_links_of_many_nodes_takes_the_same_rounds_for_all_sizes(nodes: int) -> None:
    cluster = cases.star_cluster(nodes)
    assert len(list(rounds(cluster, fills_of(cluster), lambda probe: probe.flows))) <= 16


def test_every_pair_of_few_nodes_is_probed_in_both_directions() -> None:
    pairs = {(probe.flows[0].source, probe.flows[0].target) for probe in pair_probes(cases.star_cluster(5))}
    assert len(pairs) == 20


def test_one_node_has_nothing_but_its_loopback_to_probe() -> None:
    cluster = cases.local_cluster(4)
    assert pair_probes(cluster) == ()
    assert fillable_links(cluster) == {}
    assert [str(probe) for probe in loopback_probes(cluster)] == ["node0 -> node0"]


def test_a_fan_sends_in_proportion_to_the_rates_of_its_targets() -> None:
    cluster = cases.star_cluster(4)
    known = {("switch", "node1"): 0.4, ("switch", "node2"): 0.1, ("switch", "node3"): 0.4, ("node0", "switch"): 0.4}
    probe = fill_probe(cluster, ("node0", "switch"), fillable_links(cluster)["node0", "switch"], known)
    assert {flow.target: flow.weight for flow in probe.flows} == pytest.approx(
        {"node1": 0.4, "node2": 0.1, "node3": 0.4}
    )


def test_flows_share_their_tightest_link_and_the_rest_goes_to_the_others() -> None:
    routes = [["a", "b"], ["a"], ["c"]]
    assert fair_rates(routes, {"a": 10.0, "b": 2.0}) == pytest.approx([2.0, 8.0, 8.0])
    assert fair_rates(routes, {}) == [1.0, 1.0, 1.0]
