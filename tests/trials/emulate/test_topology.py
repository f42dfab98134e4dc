"""Emulated clusters described in a few characters."""

from __future__ import annotations

import os

import pytest

from autosync.errors import ClusterError
from trials.cluster.racks import parse_emulation, parse_rate, star_of


def test_a_text_names_a_star_of_stated_rates() -> None:
    cluster = parse_emulation("4x200mbit")
    assert [node.address for node in cluster.nodes] == ["10.77.0.1", "10.77.0.2", "10.77.0.3", "10.77.0.4"]
    route = cluster.route("node0", "node3")
    assert [(link.source, link.target, link.gbit_per_s.value) for link in route] == [
        ("node0", "switch", 0.2),
        ("switch", "node3", 0.2),
    ]
    assert {link.gbit_per_s.source for link in route} == {"stated"}
    assert {link.latency_us.source for link in route} == {"assumed"}


@pytest.mark.parametrize(
    ("text", "gbit_per_s"), [("200mbit", 0.2), ("1gbit", 1.0), ("1.5gbit", 1.5), ("0.5mbit", 5e-4)]
)
def test_a_rate_is_in_mbit_or_gbit(text: str, gbit_per_s: float) -> None:
    assert parse_rate(text) == pytest.approx(gbit_per_s)


@pytest.mark.parametrize("text", ["200", "200 mbit", "200Mbit", "0mbit", "-1gbit", "1e3mbit", "mbit", ""])
def test_another_rate_is_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(
        ClusterError, match=r"A rate is written like 200mbit or 1.5gbit, in small letters and above zero, "
    ):
        parse_rate(text)


@pytest.mark.parametrize("text", ["4", "x200mbit", "4*200mbit", "fourx200mbit", ""])
def test_another_cluster_is_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(ClusterError, match="An emulated cluster is written like 4x200mbit"):
        parse_emulation(text)


@pytest.mark.parametrize("count", [0, 251])
def test_a_count_that_addresses_do_not_reach_is_refused(count: int) -> None:
    with pytest.raises(ClusterError, match=f"An emulated cluster has 1 to 250 nodes, not {count}"):
        star_of(count, 1.0)


def test_nodes_have_all_cores_of_the_machine_unless_told_otherwise() -> None:
    assert {node.cores for node in star_of(2, 1.0).nodes} == {float(os.cpu_count() or 1)}
    assert {node.cores for node in star_of(2, 1.0, cores=0.5).nodes} == {0.5}
