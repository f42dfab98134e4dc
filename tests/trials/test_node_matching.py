"""Node matching: groups of nodes, replacements, and the test of likeness."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autosync.errors import ClusterError
from autosync.spec import ClusterSpec, Figure, Link, Node
from tests.cases import star_cluster
from trials.cluster.node_matching import addresses_of, alike, find_seats, groups_of, part_of, reseat, seat_at
from trials.cluster.ray_labels import machines_of


def stated(value: float) -> Figure:
    return Figure(value, "stated")


def two_racks(members: int) -> ClusterSpec:
    """Nodes of two racks, listed alternately, joined by a thin uplink."""
    nodes = tuple(Node(f"node{index}", f"10.0.0.{index}", cores=2.0) for index in range(2 * members))
    links = []
    for index, node in enumerate(nodes):
        rack = ("left", "right")[index % 2]
        links.append(Link(node.name, node.name, stated(8.0), stated(10.0)))
        links += [Link(*ends, stated(1.0), stated(50.0)) for ends in ((node.name, rack), (rack, node.name))]
    links += [Link(*ends, stated(0.3), stated(50.0)) for ends in (("left", "right"), ("right", "left"))]
    return ClusterSpec(nodes, tuple(links), ("left", "right"))


def ray_node(address: str, alive: bool = True, cores: float = 2.0) -> dict[str, object]:
    return {"NodeManagerAddress": address, "Alive": alive, "Resources": {"CPU": 8.0, "autosync_cores": cores}}


def test_machines_are_the_living_nodes_with_their_cores_and_gpus() -> None:
    gpu = {"NodeManagerAddress": "c", "Alive": True, "Resources": {"CPU": 48.0, "GPU": 4.0}}
    machines = machines_of([ray_node("a"), ray_node("b", alive=False), gpu])
    sizes = {address: (machine.cores, machine.gpus) for address, machine in machines.items()}
    assert sizes == {"a": (2.0, 0), "c": (48.0, 4)}


def test_groups_are_disjoint_and_stay_within_a_rack_where_they_can() -> None:
    groups = groups_of(two_racks(3), 2)
    assert [addresses_of(group) for group in groups] == [
        ("10.0.0.0", "10.0.0.2"),
        ("10.0.0.1", "10.0.0.3"),
        ("10.0.0.4", "10.0.0.5"),
    ]
    assert [group.switches for group in groups] == [("left",), ("right",), ("left", "right")]


def test_nodes_over_are_left_out_and_too_few_are_refused() -> None:
    assert len(groups_of(star_cluster(5), 2)) == 2
    with pytest.raises(ClusterError, match=r"A trial needs 6 nodes, but the cluster has 5; lower --nodes-per-trial\."):
        groups_of(star_cluster(5), 6)


def test_a_part_has_the_links_between_its_nodes_and_no_other() -> None:
    part = part_of(two_racks(2), ["10.0.0.2", "10.0.0.0"])
    assert [node.name for node in part.nodes] == ["node2", "node0"]
    assert len(part.links) == 6
    assert part.route("node0", "node2")[0].gbit_per_s.value == 1.0


def test_groups_in_two_racks_are_alike_and_one_across_them_is_not() -> None:
    left, right, across = groups_of(two_racks(3), 2)
    assert alike(left, right) == ""
    assert alike(left, across) == "0.3 Gbit/s from 10.0.0.4 to 10.0.0.5, 1 from 10.0.0.0 to 10.0.0.2"


def test_rates_a_probe_apart_are_alike_and_other_machines_are_not() -> None:
    cluster = star_cluster(2)
    faster = replace(
        cluster, links=tuple(replace(link, gbit_per_s=stated(link.gbit_per_s.value * 1.3)) for link in cluster.links)
    )
    assert alike(cluster, faster) == ""
    stronger = replace(cluster, nodes=(cluster.nodes[0], replace(cluster.nodes[1], cores=64.0)))
    assert alike(cluster, stronger).startswith("64 cores and 0 GPUs at ")


def test_a_node_that_left_is_replaced_by_a_spare_machine_like_it() -> None:
    cluster = seat_at(star_cluster(3), ["a", "b", "c"])
    like = cluster.nodes[0]
    moved = reseat(cluster, {"a": like, "c": like, "d": Node("d", "d", cores=1.0, gpus=8), "e": like}, ["d", "e"])
    assert moved is not None
    assert addresses_of(moved) == ("a", "e", "c")
    assert moved.digest == cluster.digest
    assert reseat(cluster, {"a": like, "c": like, "d": Node("d", "d", cores=1.0, gpus=8)}, ["d"]) is None


def test_a_new_group_needs_as_many_spare_machines_as_the_cluster_has_nodes() -> None:
    cluster = star_cluster(2)
    like = cluster.nodes[0]
    assert find_seats(cluster, {"x": like, "y": like, "z": like}, ["x", "y", "z"]) == ["x", "y"]
    assert find_seats(cluster, {"x": like}, ["x"]) is None
