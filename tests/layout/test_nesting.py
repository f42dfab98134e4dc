"""Groups of an all-reduce, in halves or levels: near parts exchange before far parts, and fast before slow."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pytest

from autosync.layout.nesting import FAR_HALVES, HALVES, LEVELS, Nesting, is_regular, near_and_fast
from autosync.layout.topology import Group, Topology
from autosync.spec import ClusterSpec, Figure
from tests import cases


def _said(group: Group) -> str:
    return f"({' '.join(map(_said, group.parts))})" if group.parts else str(group.members[0])


def _alone(count: int) -> Group:
    return Group.of([Group((member,)) for member in range(count)])


def _slowed(cluster: ClusterSpec, ends: Collection[str], gbit_per_s: float, one_way: bool = False) -> ClusterSpec:
    """The cluster with another rate on the uplinks of the given nodes or switches, and back unless `one_way`."""
    links = (
        replace(link, gbit_per_s=Figure(gbit_per_s, "stated"))
        if (link.source in ends or (link.target in ends and not one_way)) and link.source != link.target
        else link
        for link in cluster.links
    )
    return replace(cluster, links=tuple(links))


@pytest.mark.parametrize(
    ("nesting", "count", "groups"),
    [
        (HALVES, 1, "0"),
        (HALVES, 3, "(0 1 2)"),
        (HALVES, 4, "((0 1) (2 3))"),
        (HALVES, 5, "(0 1 2 3 4)"),
        (HALVES, 6, "((0 1 2) (3 4 5))"),
        (HALVES, 7, "(((0 1) (2 3)) (4 5 6))"),
        (HALVES, 9, "((0 1 2) (3 4 5) (6 7 8))"),
        (FAR_HALVES, 4, "((0 2) (1 3))"),
        (FAR_HALVES, 6, "((0 2 4) (1 3 5))"),
        (FAR_HALVES, 8, "(((0 4) (2 6)) ((1 5) (3 7)))"),
        (LEVELS, 4, "(0 1 2 3)"),
        (LEVELS, 6, "((0 1 2) (3 4 5))"),
        (LEVELS, 7, "(0 1 2 3 4 5 6)"),
        (LEVELS, 8, "((0 1) (2 3) (4 5) (6 7))"),
        (LEVELS, 11, "(((0 1 2) (3 4 5)) (6 7 8 9 10))"),
    ],
)
def test_many_parts_go_in_groups_of_few(nesting: Nesting, count: int, groups: str) -> None:
    assert _said(nesting.of(_alone(count))) == groups


def test_groups_inside_of_groups_are_nested_each_by_itself() -> None:
    near = near_and_fast(Topology.of(cases.racks(4, 2, 1, 1)))
    assert _said(HALVES.of(near)) == "((((0 1) (2 3)) (4 5)) (6 7))"
    assert _said(LEVELS.of(near)) == "((0 1 2 3) (4 5) 6 7)"


@pytest.mark.parametrize(
    ("slow", "gbit_per_s", "groups"),
    [
        (["node1"], 0.05, "((0 2 3 4) 1)"),
        (["node1"], 0.1, "((0 2 3 4) 1)"),
        (["node1"], 0.16, "(0 1 2 3 4)"),
        (["node0", "node3"], 0.05, "((1 2 4) 0 3)"),
        (["node0", "node1", "node2", "node3"], 0.05, "(0 1 2 3 4)"),
    ],
)
def test_nodes_on_slow_links_come_last_where_several_are_faster(
    slow: list[str], gbit_per_s: float, groups: str
) -> None:
    star = cases.star_cluster(5)
    assert _said(near_and_fast(Topology.of(_slowed(star, slow, gbit_per_s)))) == groups
    assert _said(near_and_fast(Topology.of(_slowed(star, slow, gbit_per_s, one_way=True)))) == groups


def test_racks_on_slow_links_come_last() -> None:
    cluster = cases.racks(2, 2, 2)
    slowed = _slowed(cluster, ["rack0"], 0.1)
    back = {link for link in cluster.links if {link.source, link.target} & {"node0", "node1"}}
    links = (
        next(
            (before for before in back if (before.source, before.target) == (link.source, link.target)),
            link,
        )
        for link in slowed.links
    )
    topology = Topology.of(replace(slowed, links=tuple(links)))
    assert _said(near_and_fast(topology)) == "(((2 3) (4 5)) (0 1))"


def test_a_slow_node_is_set_apart_inside_its_rack_and_does_not_set_the_rack_apart() -> None:
    topology = Topology.of(_slowed(cases.racks(3, 3, 3), ["node0"], 0.05))
    assert _said(near_and_fast(topology)) == "(((1 2) 0) (3 4 5) (6 7 8))"


def test_clusters_of_one_digest_have_one_grouping() -> None:
    star = cases.star_cluster(5)
    for first, second in ((0.045, 0.05), (0.09, 0.1)):
        slow, faster = (_slowed(star, ["node1"], rate) for rate in (first, second))
        assert slow.digest == faster.digest
        assert near_and_fast(Topology.of(slow)) == near_and_fast(Topology.of(faster))


@pytest.mark.parametrize(("count", "regular"), [(1, True), (2, True), (6, True), (7, False), (8, True), (9, True)])
def test_members_send_alike_where_parts_are_alike(count: int, regular: bool) -> None:
    assert is_regular(HALVES.of(_alone(count))) == regular


def test_unlike_racks_are_not_regular() -> None:
    assert is_regular(Topology.of(cases.racks(2, 2)).root)
    assert not is_regular(Topology.of(cases.racks(2, 3)).root)
    assert not is_regular(Topology.of(cases.racks(2, 1)).root)
