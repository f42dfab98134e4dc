"""A topology's groups are the racks and nodes formed by a cluster's links."""

from __future__ import annotations

import pytest

from autosync.layout.topology import Group, Topology
from autosync.spec import ClusterSpec, Figure, Link, Node
from tests import cases
from tests.layout.places import on_nodes

RATE = Figure(1.0, "stated")


def _said(group: Group) -> str:
    return f"({' '.join(map(_said, group.parts))})" if group.parts else str(group.members[0])


def _wired(*pairs: str, nodes: int, one_way: str = "") -> Topology:
    """Nodes 0, 1, ... and switches (letters), joined by `pairs` both ways, and by `one_way` one way."""
    names = [(pair[0], pair[1]) for pair in pairs]
    directed = [*names, *((there, here) for here, there in names), *([(one_way[0], one_way[1])] if one_way else [])]
    machines = tuple(Node(str(number), "", 1.0) for number in range(nodes))
    switches = tuple(sorted({end for pair in directed for end in pair if end.isalpha()}))
    links = tuple(Link(source, target, RATE, RATE) for source, target in directed)
    cluster = ClusterSpec(
        machines, links + tuple(Link(node.name, node.name, RATE, RATE) for node in machines), switches
    )
    return Topology(cluster, tuple(map(str, cluster.replica_devices)))


@pytest.mark.parametrize(
    ("cluster", "groups"),
    [
        (cases.local_cluster(1), "0"),
        (cases.local_cluster(3), "(0 1 2)"),
        (cases.star_cluster(3), "(0 1 2)"),
        (cases.star_cluster(2, workers=2), "((0 1) (2 3))"),
        (cases.rack_cluster(), "((0 1) (2 3))"),
        (cases.racks(2, 2, 2), "((0 1) (2 3) (4 5))"),
        (cases.racks(3, 1, 2), "((0 1 2) 3 (4 5))"),
        (cases.gpu_cluster(2, 2), "((0 1) (2 3))"),
        (cases.uneven_cluster(), "((0 1) 2 3 4)"),
    ],
)
def test_groups_are_racks_and_nodes(cluster: ClusterSpec, groups: str) -> None:
    assert _said(Topology(cluster, tuple(map(str, cluster.replica_devices))).root) == groups


def test_only_replicas_are_in_groups() -> None:
    cluster = cases.racks(2, 2, 2)
    assert _said(Topology(cluster, ("node1/cpu:0", "node4/cpu:0", "node0/cpu:0")).root) == "((0 2) 1)"


def test_replicas_may_be_in_any_order() -> None:
    assert _said(on_nodes(["b", "a", "b", "c", "a"]).root) == "((0 2) (1 4) 3)"


@pytest.mark.parametrize(
    ("pairs", "nodes", "groups"),
    [
        (("0a", "1a", "2b", "3b", "ac", "bc", "4d", "5d", "6e", "de", "ce"), 7, "(((0 1) (2 3)) ((4 5) 6))"),
        (("0a", "1a", "2b", "ab"), 3, "((0 1) 2)"),
        (("0a", "1a", "2b", "3c", "4c", "ab", "bc"), 5, "((0 1) 2 (3 4))"),
    ],
    ids=["racks of racks", "two switches", "a chain"],
)
def test_groups_are_inside_of_groups(pairs: tuple[str, ...], nodes: int, groups: str) -> None:
    assert _said(_wired(*pairs, nodes=nodes).root) == groups


def test_groups_are_in_the_order_of_their_members_and_not_of_switch_names() -> None:
    assert _said(_wired("0b", "1b", "2a", "3a", "ab", nodes=4).root) == "((0 1) (2 3))"
    assert _said(_wired("0d", "1d", "2b", "3b", "4a", "5a", "dc", "bc", "ac", nodes=6).root) == "((0 1) (2 3) (4 5))"


@pytest.mark.parametrize(
    "pairs", [("01", "12", "20"), ("0a", "1a", "2b", "0b", "1b", "2a"), ("0a", "1b", "2c", "ab", "bc", "ca")]
)
def test_links_that_are_no_tree_make_no_groups(pairs: tuple[str, ...]) -> None:
    assert _said(_wired(*pairs, nodes=3).root) == "(0 1 2)"


def test_a_way_back_that_is_missing_makes_no_groups() -> None:
    assert _said(_wired("0a", "1a", "2b", "3b", "ab", nodes=4, one_way="2a").root) == "(0 1 2 3)"
