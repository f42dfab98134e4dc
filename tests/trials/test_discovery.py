"""Discovery: converts Ray's description of nodes to a cluster."""

from __future__ import annotations

import os
from typing import Any

import pytest

from autosync.errors import ClusterError
from autosync.spec import ClusterSpec, Figure, Link, Node, SharedCores
from tests import cases
from trials.cluster.discovery import (
    MOST_WORKERS_A_CORE,
    check_room_here,
    cluster_from_ray_nodes,
    local_cluster,
    match_cluster,
)
from trials.cluster.ray_labels import WORKERS_LABEL


def node(
    address: str, head: bool = False, alive: bool = True, rack: str | None = None, **resources: float
) -> dict[str, Any]:
    """Return a node as in `ray.nodes()`."""
    labels = {"ray.io/node-id": "0123abcd"} | ({"rack": rack} if rack else {})
    inner = {"node:__internal_head__": 1.0} if head else {}
    listed = {"CPU": 4.0, "memory": 1e9, f"node:{address}": 1.0} | inner | resources
    return {"Alive": alive, "NodeManagerAddress": address, "Resources": listed, "Labels": labels}


def test_a_single_cpu_machine_plays_a_cluster_of_four() -> None:
    cluster = cluster_from_ray_nodes([node("10.0.0.1", head=True)])
    (only,) = cluster.nodes
    assert (only.name, only.address, only.workers, only.gpus, only.cores) == ("node0", "10.0.0.1", 4, 0, 4.0)


def test_each_of_several_nodes_has_one_worker_and_the_head_comes_first() -> None:
    cluster = cluster_from_ray_nodes([node("10.0.0.3"), node("10.0.0.9", head=True), node("10.0.0.1")])
    assert [node.address for node in cluster.nodes] == ["10.0.0.9", "10.0.0.1", "10.0.0.3"]
    assert [node.name for node in cluster.nodes] == ["node0", "node1", "node2"]
    assert [node.workers for node in cluster.nodes] == [1, 1, 1]


def test_a_machine_has_room_for_so_many_workers_a_core_and_a_cluster_that_is_joined_may_have_more() -> None:
    most = MOST_WORKERS_A_CORE * (os.cpu_count() or 1)
    check_room_here(most)
    for refused in (check_room_here, local_cluster):
        with pytest.raises(
            ClusterError, match=rf"^This machine takes at most {most} workers, .*, not {most + 1}; lower"
        ):
            refused(most + 1)
    assert len(cluster_from_ray_nodes([node("10.0.0.1")], most + 1).server_devices) == most + 1


def test_nodes_that_play_machines_tell_of_the_real_one_that_they_share() -> None:
    ray_nodes = [node("10.0.0.1", head=True), node("10.0.0.2")]
    for ray_node in ray_nodes:
        ray_node["Labels"] |= {"autosync-machine": "one", "autosync-machine-cores": "2"}
    cluster = cluster_from_ray_nodes(ray_nodes)
    assert [node.shared_cores for node in cluster.nodes] == [SharedCores("one", 2.0)] * 2
    stated = cluster_from_ray_nodes([node("10.0.0.1", head=True), node("10.0.0.2")])
    assert [node.shared_cores for node in stated.nodes] == [None, None]
    assert match_cluster(stated, ray_nodes) == cluster


def test_more_workers_than_nodes_are_spread_evenly() -> None:
    cluster = cluster_from_ray_nodes([node("10.0.0.1", head=True), node("10.0.0.2")], workers=5)
    assert [node.workers for node in cluster.nodes] == [3, 2]


def test_a_node_has_as_many_workers_as_its_label_states() -> None:
    ray_nodes = [node("10.0.0.1", head=True), node("10.0.0.2")]
    ray_nodes[1]["Labels"] = {WORKERS_LABEL: "2"}
    assert [found.workers for found in cluster_from_ray_nodes(ray_nodes).nodes] == [1, 2]
    assert [found.workers for found in cluster_from_ray_nodes(ray_nodes[1:]).nodes] == [2]
    assert [found.workers for found in cluster_from_ray_nodes(ray_nodes, workers=2).nodes] == [1, 1]


def test_fewer_workers_than_nodes_leave_the_last_nodes_out() -> None:
    cluster = cluster_from_ray_nodes([node("10.0.0.2"), node("10.0.0.1", head=True), node("10.0.0.3")], workers=2)
    assert [node.address for node in cluster.nodes] == ["10.0.0.1", "10.0.0.2"]


def test_dead_nodes_are_left_out() -> None:
    cluster = cluster_from_ray_nodes([node("10.0.0.1", head=True), node("10.0.0.2", alive=False)], workers=2)
    assert [node.address for node in cluster.nodes] == ["10.0.0.1"]


def test_a_node_with_gpus_has_one_worker_that_drives_them_all() -> None:
    cluster = cluster_from_ray_nodes([node("10.0.0.1", head=True, GPU=8.0)])
    assert [(node.workers, node.gpus) for node in cluster.nodes] == [(1, 8)]
    cluster = cluster_from_ray_nodes([node("10.0.0.1", head=True, GPU=4.0), node("10.0.0.2", GPU=2.0)])
    assert [(node.workers, node.gpus) for node in cluster.nodes] == [(1, 4), (1, 2)]
    assert len(cluster.replica_devices) == 6


def test_true_cores_are_told_apart_from_the_slots_that_ray_hands_out() -> None:
    cluster = cluster_from_ray_nodes([node("10.0.0.1", head=True, CPU=6.0, autosync_cores=2.0)])
    assert cluster.nodes[0].cores == 2.0


def test_links_are_marked_as_assumed() -> None:
    cluster = cluster_from_ray_nodes([node("10.0.0.1", head=True), node("10.0.0.2")])
    figures = [figure for link in cluster.links for figure in (link.gbit_per_s, link.latency_us)]
    assert {figure.source for figure in figures} == {"assumed"}


def test_this_machine_alone_is_a_cluster_too() -> None:
    cluster = local_cluster(3)
    assert [(node.address, node.workers) for node in cluster.nodes] == [("127.0.0.1", 3)]
    assert cluster.nodes[0].cores == os.cpu_count()
    assert len(local_cluster().replica_devices) == 4


def test_a_cluster_without_living_nodes_is_refused() -> None:
    with pytest.raises(ClusterError, match=r"no living node; start one with `ray up cluster.yaml` or `ray start`"):
        cluster_from_ray_nodes([node("10.0.0.1", alive=False)])


def test_no_worker_is_refused() -> None:
    for make in (lambda: cluster_from_ray_nodes([node("10.0.0.1")], workers=0), lambda: local_cluster(0)):
        with pytest.raises(ClusterError, match=r"at least 1 worker, not 0; raise --workers"):
            make()


def test_more_workers_than_nodes_with_gpus_are_refused() -> None:
    with pytest.raises(ClusterError, match=r"so 2 node\(s\) take at most 2 workers, not 3"):
        cluster_from_ray_nodes([node("10.0.0.1", head=True, GPU=4.0), node("10.0.0.2", GPU=4.0)], workers=3)


def route(cluster: ClusterSpec, source: str, target: str) -> list[str]:
    return [link.target for link in cluster.route(source, target)]


def test_nodes_with_a_rack_label_hang_on_their_racks_switch() -> None:
    racks = {"10.0.0.1": "left", "10.0.0.2": "right", "10.0.0.3": "left"}
    cluster = cluster_from_ray_nodes([node(address, rack=rack) for address, rack in racks.items()])
    assert cluster.switches == ("left", "right", "core")
    assert route(cluster, "node0", "node2") == ["left", "node2"]
    assert route(cluster, "node0", "node1") == ["left", "core", "right", "node1"]
    assert {figure.source for link in cluster.links for figure in (link.gbit_per_s, link.latency_us)} == {"assumed"}


def test_a_node_outside_of_racks_hangs_on_the_core() -> None:
    for label in (None, "core"):
        cluster = cluster_from_ray_nodes([node("10.0.0.1", rack="left"), node("10.0.0.2", rack=label)])
        assert cluster.switches == ("left", "core")
        assert route(cluster, "node1", "node0") == ["core", "left", "node0"]


def test_racks_of_nodes_that_are_not_used_are_left_out() -> None:
    racks = {"10.0.0.1": "left", "10.0.0.2": "left", "10.0.0.3": "right"}
    cluster = cluster_from_ray_nodes([node(address, rack=rack) for address, rack in racks.items()], workers=2)
    assert cluster.switches == ("left",)
    assert route(cluster, "node0", "node1") == ["left", "node1"]


def test_a_label_tells_parts_of_cores_exactly() -> None:
    straggler = node("10.0.0.1", autosync_cores=1.0)
    straggler["Labels"]["autosync-cores"] = "0.5"
    assert cluster_from_ray_nodes([straggler]).nodes[0].cores == 0.5


def test_a_stated_cluster_takes_cores_and_gpus_from_ray_and_keeps_its_names_order_and_links() -> None:
    stated = cases.star_cluster(2)
    alive = [node("10.0.0.9", head=True), node("10.0.0.2", GPU=4.0), node("10.0.0.1", CPU=6.0, autosync_cores=3.0)]
    cluster = match_cluster(stated, alive)
    told = [(node.name, node.address, node.cores, node.gpus) for node in cluster.nodes]
    assert told == [("node0", "10.0.0.1", 3.0, 0), ("node1", "10.0.0.2", 4.0, 4)]
    assert cluster.links == stated.links


def test_a_stated_node_that_does_not_live_is_refused_with_the_addresses_that_do() -> None:
    alive = [node("10.0.0.1"), node("10.0.0.2", alive=False), node("10.0.0.7")]
    with pytest.raises(
        ClusterError, match=r"none lives at 10\.0\.0\.2 \('node1'\).* Living: 10\.0\.0\.1, 10\.0\.0\.7\."
    ):
        match_cluster(cases.star_cluster(2), alive)


def test_stated_nodes_that_have_left_may_be_left_out() -> None:
    cluster = match_cluster(
        cases.rack_cluster(), [node("10.0.1.3"), node("10.0.1.2"), node("10.0.0.1")], missing_ok=True
    )
    assert [node.name for node in cluster.nodes] == ["node1", "node2", "node3"]
    with pytest.raises(ClusterError, match=r"None of the stated nodes is alive; start Ray on them\. Living: 10\.9"):
        match_cluster(cases.rack_cluster(), [node("10.9.9.9")], missing_ok=True)


def test_a_stated_node_without_an_address_is_the_only_one_there_is_or_cannot_be_found() -> None:
    stated = ClusterSpec(
        (Node("head", "", 2.0),), (Link("head", "head", Figure(1.0, "stated"), Figure(1.0, "stated")),)
    )
    with pytest.raises(
        ClusterError, match=r"found by its address, but 'head' states none\. Living: 10\.0\.0\.1, 10\.0\.0\.2"
    ):
        match_cluster(stated, [node("10.0.0.1"), node("10.0.0.2")])
    (machine,) = match_cluster(stated, [node("10.0.0.1")]).nodes
    assert (machine.name, machine.address) == ("head", "10.0.0.1")


def test_a_ray_on_loopback_is_found_at_every_address_of_this_machine() -> None:
    rate = Figure(1.0, "stated")
    for address in ("127.0.0.1", "127.0.0.5"):  # every address of 127.0.0.0/8 is this machine's
        stated = ClusterSpec((Node("head", address, 2.0),), (Link("head", "head", rate, rate),))
        assert match_cluster(stated, [node("127.0.0.1")]).nodes[0].address == "127.0.0.1"
        with pytest.raises(ClusterError, match="none lives at"):
            match_cluster(stated, [node("10.0.0.1")])
    elsewhere = ClusterSpec((Node("head", "192.0.2.77", 2.0),), (Link("head", "head", rate, rate),))
    with pytest.raises(ClusterError, match=r"none lives at 192\.0\.2\.77"):
        match_cluster(elsewhere, [node("127.0.0.1")])


def test_several_workers_stated_for_a_node_with_gpus_are_refused() -> None:
    with pytest.raises(ClusterError, match=r"states 2 workers for 'node0', which has 4; leave `workers` out"):
        match_cluster(cases.star_cluster(1, workers=2), [node("10.0.0.1", GPU=4.0)])
