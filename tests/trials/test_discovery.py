"""From what Ray tells of its nodes to a cluster."""

from __future__ import annotations

import os
from typing import Any

import pytest

from autosync.errors import ClusterError
from trials.discovery import cluster_from_ray_nodes, local_cluster


def node(address: str, head: bool = False, alive: bool = True, **resources: float) -> dict[str, Any]:
    """A node as `ray.nodes()` describes it."""
    inner = {"node:__internal_head__": 1.0} if head else {}
    listed = {"CPU": 4.0, "memory": 1e9, f"node:{address}": 1.0} | inner | resources
    return {"Alive": alive, "NodeManagerAddress": address, "Resources": listed}


def test_a_single_cpu_machine_plays_a_cluster_of_four() -> None:
    cluster = cluster_from_ray_nodes([node("10.0.0.1", head=True)])
    (only,) = cluster.nodes
    assert (only.name, only.address, only.workers, only.gpus, only.cores) == ("node0", "10.0.0.1", 4, 0, 4.0)


def test_each_of_several_nodes_has_one_worker_and_the_head_comes_first() -> None:
    cluster = cluster_from_ray_nodes([node("10.0.0.3"), node("10.0.0.9", head=True), node("10.0.0.1")])
    assert [each.address for each in cluster.nodes] == ["10.0.0.9", "10.0.0.1", "10.0.0.3"]
    assert [each.name for each in cluster.nodes] == ["node0", "node1", "node2"]
    assert [each.workers for each in cluster.nodes] == [1, 1, 1]


def test_more_workers_than_nodes_are_spread_evenly() -> None:
    cluster = cluster_from_ray_nodes([node("10.0.0.1", head=True), node("10.0.0.2")], workers=5)
    assert [each.workers for each in cluster.nodes] == [3, 2]


def test_fewer_workers_than_nodes_leave_the_last_nodes_out() -> None:
    cluster = cluster_from_ray_nodes([node("10.0.0.2"), node("10.0.0.1", head=True), node("10.0.0.3")], workers=2)
    assert [each.address for each in cluster.nodes] == ["10.0.0.1", "10.0.0.2"]


def test_dead_nodes_are_left_out() -> None:
    cluster = cluster_from_ray_nodes([node("10.0.0.1", head=True), node("10.0.0.2", alive=False)], workers=2)
    assert [each.address for each in cluster.nodes] == ["10.0.0.1"]


def test_a_node_with_gpus_has_one_worker_that_drives_them_all() -> None:
    cluster = cluster_from_ray_nodes([node("10.0.0.1", head=True, GPU=8.0)])
    assert [(each.workers, each.gpus) for each in cluster.nodes] == [(1, 8)]
    both = cluster_from_ray_nodes([node("10.0.0.1", head=True, GPU=4.0), node("10.0.0.2", GPU=2.0)])
    assert [(each.workers, each.gpus) for each in both.nodes] == [(1, 4), (1, 2)]
    assert len(both.replica_devices) == 6


def test_true_cores_are_told_apart_from_the_slots_that_ray_hands_out() -> None:
    cluster = cluster_from_ray_nodes([node("10.0.0.1", head=True, CPU=6.0, autosync_cores=2.0)])
    assert cluster.nodes[0].cores == 2.0


def test_links_are_marked_as_assumed() -> None:
    cluster = cluster_from_ray_nodes([node("10.0.0.1", head=True), node("10.0.0.2")])
    figures = [figure for link in cluster.links for figure in (link.gbit_per_s, link.latency_us)]
    assert {figure.source for figure in figures} == {"assumed"}


def test_this_machine_alone_is_a_cluster_too() -> None:
    cluster = local_cluster(3)
    assert [(each.address, each.workers) for each in cluster.nodes] == [("127.0.0.1", 3)]
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
