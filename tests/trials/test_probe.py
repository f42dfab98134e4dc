"""Probing over computed networks: the measured figures are close to the network's."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from autosync.errors import ClusterError
from autosync.spec import ClusterSpec, Figure, Link
from tests import cases
from tests.trials.fluid_network import FluidNetwork
from trials.probe import ProbeSettings, Probing, probe_cluster


def rated(cluster: ClusterSpec, gbit_per_s: dict[tuple[str, str], float]) -> ClusterSpec:
    """Return `cluster` with the rates of some links set."""
    links = (
        replace(link, gbit_per_s=Figure(gbit_per_s.get((link.source, link.target), link.gbit_per_s.value), "stated"))
        for link in cluster.links
    )
    return replace(cluster, links=tuple(links))


def assumed(truth: ClusterSpec) -> ClusterSpec:
    """Return `truth` as it is known before it is probed."""
    rate, latency = Figure(7.0, "assumed"), Figure(700.0, "assumed")
    return replace(truth, links=tuple(replace(link, gbit_per_s=rate, latency_us=latency) for link in truth.links))


def probing_of(truth: ClusterSpec, settings: ProbeSettings | None = None, burst_bytes: int = 0) -> Probing:
    network = FluidNetwork(truth, burst_bytes)
    return probe_cluster(assumed(truth), network, settings, network.now, network.pause)


def rates(cluster: ClusterSpec) -> dict[tuple[str, str], float]:
    """Return the rates of the measured links."""
    measured = [link for link in cluster.links if link.gbit_per_s.source == "measured"]
    return {(link.source, link.target): link.gbit_per_s.value for link in measured}


def between_nodes(cluster: ClusterSpec) -> dict[tuple[str, str], float]:
    links = [link for link in cluster.links if link.source != link.target]
    return {(link.source, link.target): link.gbit_per_s.value for link in links}


def link(cluster: ClusterSpec, source: str, target: str) -> Link:
    return next(link for link in cluster.links if (link.source, link.target) == (source, target))


@pytest.mark.parametrize("gbit_per_s", [0.01, 0.1, 1.0, 10.0])
def test_equal_links_are_measured_whatever_their_rate(gbit_per_s: float) -> None:
    truth = cases.star_cluster(4, gbit_per_s)
    assert rates(probing_of(truth).cluster) == pytest.approx(between_nodes(truth), rel=0.02)


def test_a_way_in_that_is_faster_than_every_way_out_is_filled_by_several() -> None:
    slow_up = {(f"node{index}", "switch"): 0.1 for index in range(4)}
    truth = rated(cases.star_cluster(4, 0.25), slow_up)
    assert rates(probing_of(truth).cluster) == pytest.approx(between_nodes(truth), rel=0.02)


def test_one_slow_node_hides_nothing_of_the_others() -> None:
    slow = {("node3", "switch"): 0.02, ("switch", "node3"): 0.05}
    fast = {("node0", "switch"): 0.38}  # only node1 and node2 together can use this rate
    truth = rated(cases.star_cluster(4, 0.2), slow | fast)
    assert rates(probing_of(truth).cluster) == pytest.approx(between_nodes(truth), rel=0.02)


@pytest.mark.parametrize("uplink_gbit_per_s", [5.0, 15.0])
def test_a_link_that_racks_share_is_measured_where_it_is_thinner_than_its_nodes_together(
    uplink_gbit_per_s: float,
) -> None:
    truth = rated(
        cases.rack_cluster(), {("rack0", "rack1"): uplink_gbit_per_s, ("rack1", "rack0"): uplink_gbit_per_s / 2}
    )
    assert rates(probing_of(truth).cluster) == pytest.approx(between_nodes(truth), rel=0.02)


def test_many_nodes_are_probed_side_by_side() -> None:
    slow = {("node7", "switch"): 0.1, ("switch", "node11"): 0.2}
    truth = rated(cases.star_cluster(20, 1.0), slow)
    # Virtual time passes one call after another, so probing takes more of it.
    measured = probing_of(truth, ProbeSettings(budget_seconds=500.0)).cluster
    assert rates(measured) == pytest.approx(between_nodes(truth), rel=0.02)


def test_a_burst_that_passes_at_line_speed_is_not_taken_for_the_rate() -> None:
    truth = cases.star_cluster(3, 0.1)
    measured = probing_of(truth, burst_bytes=200_000).cluster
    assert rates(measured) == pytest.approx(between_nodes(truth), rel=0.02)


def test_latencies_of_links_add_up_to_those_of_their_routes() -> None:
    truth = cases.star_cluster(4)
    late = tuple(
        replace(link, latency_us=Figure(400.0, "stated")) if "node2" in (link.source, link.target) else link
        for link in truth.links
    )
    truth = replace(truth, links=late)
    measured = probing_of(truth).cluster
    for first in truth.nodes:
        for second in truth.nodes:
            if first != second:
                route, true_route = (cluster.route(first.name, second.name) for cluster in (measured, truth))
                expected = sum(link.latency_us.value for link in true_route)
                assert sum(link.latency_us.value for link in route) == pytest.approx(expected, rel=0.01)
                assert {link.latency_us.source for link in route} == {"measured"}


def test_workers_of_one_node_are_timed_through_its_loopback() -> None:
    measured = probing_of(cases.local_cluster(3)).cluster
    loopback = link(measured, "node0", "node0")
    assert loopback.gbit_per_s.source == "measured"
    assert loopback.gbit_per_s.value == pytest.approx(40.0, rel=0.02)
    assert loopback.latency_us.value == pytest.approx(20.0, rel=0.02)


def test_a_loopback_that_carries_nothing_keeps_its_figure() -> None:
    truth = cases.star_cluster(2)
    assert link(probing_of(truth).cluster, "node0", "node0") == link(assumed(truth), "node0", "node0")


def test_hosts_get_a_copy_rate_and_the_cost_of_a_message() -> None:
    for node in probing_of(cases.star_cluster(3)).cluster.nodes:
        assert node.copy_gbit_per_s is not None
        assert node.message_us is not None
        assert node.copy_gbit_per_s.value == pytest.approx(100.0, rel=0.02)
        assert node.message_us.value == pytest.approx(50.0, rel=0.02)
        assert {node.copy_gbit_per_s.source, node.message_us.source} == {"measured"}


def test_a_lone_worker_sends_no_messages() -> None:
    (node,) = probing_of(cases.local_cluster(1)).cluster.nodes
    assert node.copy_gbit_per_s is not None
    assert node.message_us is None


def test_all_but_figures_stays_as_it_was() -> None:
    before = assumed(cases.rack_cluster())
    after = probing_of(cases.rack_cluster()).cluster
    assert after.switches == before.switches
    assert tuple(replace(node, copy_gbit_per_s=None, message_us=None) for node in after.nodes) == before.nodes
    assert [(link.source, link.target) for link in after.links] == [(link.source, link.target) for link in before.links]


@pytest.mark.parametrize(("nodes", "gbit_per_s"), [(4, 0.1), (8, 0.1), (16, 0.1), (4, 10.0)])
def test_probing_ends_within_its_budget(nodes: int, gbit_per_s: float) -> None:
    probing = probing_of(cases.star_cluster(nodes, gbit_per_s))
    assert probing.report["seconds"] <= 20.5  # a started round is finished
    assert probing.report["probes_left_out"] == 0


@pytest.mark.parametrize("truth", [cases.star_cluster(8, 0.1), cases.racks(2, 2, 2, 2)], ids=["star", "four racks"])
def test_even_with_a_short_budget_a_pair_has_crossed_every_link(truth: ClusterSpec) -> None:
    probing = probing_of(truth, ProbeSettings(budget_seconds=0.1))
    assert probing.report["probes_left_out"] > 0
    assert rates(probing.cluster) == pytest.approx(between_nodes(truth), rel=0.05)


def test_the_report_says_what_was_sent_and_survives_json() -> None:
    probing = probing_of(cases.star_cluster(3, 0.1))
    again = Probing.from_json(json.loads(json.dumps(probing.to_json())))
    assert again == probing
    pairs = {(pair["source"], pair["target"]): pair for pair in again.report["pairs"]}
    assert len(pairs) == 6
    assert pairs["node2", "node0"]["gbit_per_s"] == pytest.approx(0.1, rel=0.02)
    assert pairs["node2", "node0"]["alpha_us"] == pytest.approx(100.0, rel=0.02)
    fills = [probe for probe in again.report["probes"] if probe["fills"] == ["node0", "switch"]]
    assert [len(probe["flows"]) for probe in fills] == [2]
    assert all(len(probe["bytes"]) == len(probe["seconds"]) for probe in again.report["probes"])


def test_a_node_that_cannot_be_reached_is_named() -> None:
    truth = cases.star_cluster(3)
    network = FluidNetwork(truth, dead=frozenset({"node1"}))
    message = "Probing node0 -> node1 failed: A worker cannot be reached (UnavailableError: Socket closed)."
    with pytest.raises(ClusterError, match=re.escape(message)):
        probe_cluster(assumed(truth), network, now=network.now, pause=network.pause)


def test_a_node_that_never_answers_is_named() -> None:
    truth = cases.star_cluster(3)
    network = FluidNetwork(truth, silent="node2")
    message = (
        "Probing node2 -> node0 got no answer within 0.2 s; check that these nodes live and reach each other, "
        "then probe again."
    )
    with pytest.raises(ClusterError, match=re.escape(message)):
        probe_cluster(assumed(truth), network, ProbeSettings(answer_seconds=0.2), network.now, network.pause)
    network.forever.set()
