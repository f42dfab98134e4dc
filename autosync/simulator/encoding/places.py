"""A cluster as its servers see it: the rates of their routes, the numbers of their cores, and their links.

Rates and cores are logarithms of the ratio to the geometric mean over nodes, so that only differences count.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from autosync.cost.capacity import ResourceColumns, fair_cores
from autosync.numeric import FloatArray, IndexArray
from autosync.spec import ClusterSpec, Device


@dataclass(frozen=True, eq=False)
class ClusterShape:
    """A cluster as replicas on some of its devices see it."""

    resources: ResourceColumns
    log_rate: FloatArray
    """The log rate of each node's routes, minus the mean over nodes."""
    log_cores: FloatArray
    """The log number of each node's cores, minus the mean over nodes."""
    replicas_share: FloatArray
    """The share of all replicas that each node has."""
    slowest_bytes_per_second: float
    """The slowest rate of a route between two nodes with replicas, or within the node if only one has replicas."""
    node_of_server: IndexArray
    """The node of each server device."""
    attached: npt.NDArray[np.bool_]
    """Whether a link begins or ends at a node, bool (nodes, links)."""
    link_switch_pairs: IndexArray
    """Pairs of a link and a switch at which the link begins or ends, int (2, pairs)."""

    @property
    def servers(self) -> int:
        return len(self.node_of_server)


@lru_cache(maxsize=32)
def cluster_shape_of(cluster: ClusterSpec, replicas: tuple[str, ...]) -> ClusterShape:
    """Return a cluster's shape, cached for the clusters used last, because thousands of strategies share a cluster."""
    number = {node.name: place for place, node in enumerate(cluster.nodes)}
    on_node = np.zeros(len(number))
    for name in replicas:
        on_node[number[Device.parse(name).node]] += 1
    names = [node.name for node in cluster.nodes if on_node[number[node.name]]]
    rates = np.array([_mean_log_rate(cluster, node.name, names) for node in cluster.nodes])
    cores = np.log(fair_cores(cluster))
    pairs = [(name, destination) for name in names for destination in names if name != destination] or [
        (names[0], names[0])
    ]
    return ClusterShape(
        resources=ResourceColumns(cluster),
        log_rate=rates - rates.mean(),
        log_cores=cores - cores.mean(),
        replicas_share=on_node / on_node.sum(),
        slowest_bytes_per_second=min(_route_rate(cluster, *pair) for pair in pairs),
        node_of_server=np.array([number[device.node] for device in cluster.server_devices], dtype=np.intp),
        attached=np.array(
            [[node.name in (link.source, link.target) for link in cluster.links] for node in cluster.nodes]
        ),
        link_switch_pairs=_link_switch_pairs(cluster),
    )


def _route_rate(cluster: ClusterSpec, source: str, target: str) -> float:
    """Return the rate of the slowest link of a route, in bytes per second."""
    return min(link.bytes_per_second for link in cluster.route(source, target))


def _mean_log_rate(cluster: ClusterSpec, node: str, replica_nodes: list[str]) -> float:
    peers = [replica_node for replica_node in replica_nodes if replica_node != node] or [node]
    return float(np.mean([np.log(_route_rate(cluster, node, peer)) for peer in peers]))


def _link_switch_pairs(cluster: ClusterSpec) -> IndexArray:
    number = {name: place for place, name in enumerate(cluster.switches)}
    pairs = [
        (place, number[end])
        for place, link in enumerate(cluster.links)
        for end in (link.source, link.target)
        if end in number
    ]
    return np.asarray(np.array(pairs, dtype=np.intp).reshape(-1, 2).T)
