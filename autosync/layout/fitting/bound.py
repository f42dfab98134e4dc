"""What no packing of trees on a cluster's links goes below."""

from __future__ import annotations

from functools import lru_cache

from autosync.layout.fitting.nested import direct_trees, nested_pricing, nested_trees, node_group, nodes_of
from autosync.layout.fitting.network import Network
from autosync.layout.fitting.packing import cheapest, packer_of
from autosync.layout.topology import Topology
from autosync.spec import ClusterSpec

MOST_BOUND_NODES = 16
"""The most nodes for which it is worked out."""


def trees_bound(topology: Topology) -> float | None:
    """Seconds a byte that an all-reduce of these replicas takes at least, by the links between nodes; 0 on one node.

    None where there are so many nodes that it would take long.
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
    packer = packer_of(Network.among(cluster, nodes), [*direct_trees(len(nodes)), *nested_trees(group)])
    packer.extend(nested_pricing(group))
    packer.extend(cheapest)
    return packer.bound_seconds
