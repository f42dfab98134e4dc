"""The lower bound on the time of an all-reduce, by packings of trees on a cluster's links."""

from __future__ import annotations

from functools import lru_cache

from autosync.layout.fitting.nested import direct_trees, group_pricing, group_trees, node_group, nodes_of
from autosync.layout.fitting.network import LinkNetwork
from autosync.layout.fitting.packing import cheapest, packer_of
from autosync.layout.topology import Topology
from autosync.spec import ClusterSpec

MOST_BOUND_NODES = 16
"""The maximum number of nodes for which the bound is computed."""


def trees_bound(topology: Topology) -> float | None:
    """The lower bound of an all-reduce of these replicas, in seconds a byte, by the links between nodes; 0 on one node.

    None if there are more than `MOST_BOUND_NODES` nodes, because the computation would take long.
    """
    return _bound(topology.cluster, topology.replicas)


@lru_cache(maxsize=64)
def _bound(cluster: ClusterSpec, replicas: tuple[str, ...]) -> float | None:
    topology = Topology(cluster, replicas)
    nodes = nodes_of(topology)
    if len(nodes) > MOST_BOUND_NODES:
        return None
    if len(nodes) == 1:
        return 0.0
    group = node_group(topology)
    packer = packer_of(LinkNetwork.among(cluster, nodes), [*direct_trees(len(nodes)), *group_trees(group)])
    packer.extend(group_pricing(group))
    packer.extend(cheapest)
    return packer.bound_seconds
