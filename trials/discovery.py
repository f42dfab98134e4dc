"""Discovery: the nodes of a running Ray cluster, or this machine alone, as a `ClusterSpec`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from autosync.errors import ClusterError
from autosync.spec import ClusterSpec, Figure, Node

__all__ = ["cluster_from_ray_nodes", "local_cluster"]

WORKERS_OF_A_SINGLE_NODE = 4
"""How many worker processes a CPU machine that plays a cluster has by default."""

# Until a probe has measured them. Marked as assumed wherever they are shown.
ASSUMED_LINK_GBIT_PER_S, ASSUMED_LINK_LATENCY_US = 1.0, 200.0
ASSUMED_HOST_GBIT_PER_S, ASSUMED_HOST_LATENCY_US = 8.0, 100.0


def cluster_from_ray_nodes(ray_nodes: Sequence[Mapping[str, Any]], workers: int | None = None) -> ClusterSpec:
    """The cluster that `ray.nodes()` describes, the head first, its links assumed.

    `workers` is the number of worker processes in all. By default every node of several has one, and a single CPU
    node plays a cluster with four. More workers than nodes are spread evenly. Raises `ClusterError`.
    """
    alive = sorted((node for node in ray_nodes if node.get("Alive")), key=_head_first)
    if not alive:
        raise ClusterError("The Ray cluster has no living node; start one with `ray up cluster.yaml` or `ray start`.")
    gpus = [int(node["Resources"].get("GPU", 0)) for node in alive]
    if workers is None:
        workers = WORKERS_OF_A_SINGLE_NODE if len(alive) == 1 and not gpus[0] else len(alive)
    _check_workers(workers)
    if any(gpus) and workers > len(alive):
        raise ClusterError(
            f"One worker process drives all GPUs of a node, so {len(alive)} node(s) take at most {len(alive)} "
            f"workers, not {workers}."
        )
    alive, gpus = alive[:workers], gpus[:workers]
    each, more = divmod(workers, len(alive))
    nodes = tuple(
        Node(
            name=f"node{index}",
            address=str(node["NodeManagerAddress"]),
            cores=float(node["Resources"].get("autosync_cores", node["Resources"].get("CPU", 1.0))),
            workers=each + (index < more),
            gpus=gpus[index],
        )
        for index, node in enumerate(alive)
    )
    return _with_assumed_links(nodes)


def local_cluster(workers: int = WORKERS_OF_A_SINGLE_NODE) -> ClusterSpec:
    """This machine, its CPU cores shared by `workers` workers, its links assumed. Raises `ClusterError`."""
    _check_workers(workers)
    return _with_assumed_links((Node("node0", "127.0.0.1", float(os.cpu_count() or 1), workers=workers),))


def _check_workers(workers: int) -> None:
    if workers < 1:
        raise ClusterError(f"A trial needs at least 1 worker, not {workers}; raise --workers.")


def _with_assumed_links(nodes: tuple[Node, ...]) -> ClusterSpec:
    return ClusterSpec.star(
        nodes,
        link_gbit_per_s=Figure(ASSUMED_LINK_GBIT_PER_S, "assumed"),
        link_latency_us=Figure(ASSUMED_LINK_LATENCY_US, "assumed"),
        host_gbit_per_s=Figure(ASSUMED_HOST_GBIT_PER_S, "assumed"),
        host_latency_us=Figure(ASSUMED_HOST_LATENCY_US, "assumed"),
    )


def _head_first(node: Mapping[str, Any]) -> tuple[bool, str]:
    return "node:__internal_head__" not in node["Resources"], str(node["NodeManagerAddress"])
