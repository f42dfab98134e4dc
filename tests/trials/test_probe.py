"""Probing: which pairs are timed, and what becomes of the figures."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from autosync.spec import ClusterSpec, Link
from tests import cases
from trials.probe import probed


@dataclass(frozen=True)
class Timed:
    latency_seconds: float
    bytes_per_second: float


class Network:
    """A network that is slow into `slow_node`; remembers which transfers were timed."""

    def __init__(self, slow_node: str = "") -> None:
        self.slow_node = slow_node
        self.timed: list[tuple[str, str]] = []

    def transfer(self, source: str, target: str) -> Timed:
        self.timed.append((source, target))
        slow = target.startswith(f"{self.slow_node}/") and not source.startswith(f"{self.slow_node}/")
        return Timed(2e-4, 1.25e6 if slow else 1.25e8)


def link(cluster: ClusterSpec, source: str, target: str) -> Link:
    return next(each for each in cluster.links if (each.source, each.target) == (source, target))


def test_workers_of_one_node_are_timed_through_its_loopback() -> None:
    network = Network()
    cluster = probed(cases.local_cluster(3), network.transfer)
    assert network.timed == [("node0/cpu:0", "node0/cpu:1")]
    loopback = link(cluster, "node0", "node0")
    assert (loopback.gbit_per_s.source, loopback.latency_us.source) == ("measured", "measured")
    assert loopback.gbit_per_s.value == pytest.approx(1.0)
    assert loopback.latency_us.value == pytest.approx(200.0)


def test_nodes_are_timed_in_a_ring() -> None:
    network = Network()
    cluster = probed(cases.star_cluster(3), network.transfer)
    assert network.timed == [
        ("node0/cpu:0", "node1/cpu:0"),
        ("node1/cpu:0", "node2/cpu:0"),
        ("node2/cpu:0", "node0/cpu:0"),
    ]
    for source in cluster.nodes:
        for target in cluster.nodes:
            if source != target:
                route = cluster.route(source.name, target.name)
                assert sum(each.latency_us.value for each in route) == pytest.approx(200.0)
                assert {each.gbit_per_s.source for each in route} == {"measured"}


def test_a_slow_node_is_found_out() -> None:
    cluster = probed(cases.star_cluster(3), Network("node1").transfer)
    assert link(cluster, "switch", "node1").gbit_per_s.value == pytest.approx(0.01)
    assert link(cluster, "switch", "node2").gbit_per_s.value == pytest.approx(1.0)


def test_a_loopback_that_carries_nothing_keeps_its_figure() -> None:
    before = cases.star_cluster(2)
    after = probed(before, Network().transfer)
    assert link(after, "node0", "node0") == link(before, "node0", "node0")


def test_nodes_and_switches_stay_as_they_are() -> None:
    before = cases.star_cluster(4, workers=2)
    after = probed(before, Network().transfer)
    assert (after.nodes, after.switches) == (before.nodes, before.switches)
    assert [(each.source, each.target) for each in after.links] == [(each.source, each.target) for each in before.links]
