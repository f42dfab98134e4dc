"""What a cluster looks like from where its servers are: how fast their routes, how many their cores, which their links.

Rates and cores count as logarithms of their ratio to the geometric mean over nodes, so that only differences show.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from autosync.cost.capacity import Resources, fair_cores
from autosync.spec import ClusterSpec, Device

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Places:
    """A cluster as replicas on some of its devices see it.

    By node there are `log_rate` and `log_cores` over their means, and `replicas_share` of all replicas.
    `slowest_bytes_per_second` is the slowest rate of a route between two nodes with replicas (within a node when there
    is only one). `node_of_server` gives the node of each server device; `attached` bool (nodes, links) says which links
    begin or end at a node; `switched` int (2, pairs) lists pairs of a link and a switch at which it begins or ends.
    """

    resources: Resources
    log_rate: FloatArray
    log_cores: FloatArray
    replicas_share: FloatArray
    slowest_bytes_per_second: float
    node_of_server: IntArray
    attached: npt.NDArray[np.bool_]
    switched: IntArray

    @property
    def servers(self) -> int:
        return len(self.node_of_server)


@lru_cache(maxsize=32)
def places_of(cluster: ClusterSpec, replicas: tuple[str, ...]) -> Places:
    """The places of a cluster, kept for the clusters met last, since thousands of strategies share one."""
    number = {node.name: place for place, node in enumerate(cluster.nodes)}
    on_node = np.zeros(len(number))
    for name in replicas:
        on_node[number[Device.parse(name).node]] += 1
    names = [node.name for node in cluster.nodes if on_node[number[node.name]]]
    rates = np.array([_mean_log_rate(cluster, node.name, names) for node in cluster.nodes])
    cores = np.log(fair_cores(cluster))
    pairs = [(one, other) for one in names for other in names if one != other] or [(names[0], names[0])]
    return Places(
        resources=Resources(cluster),
        log_rate=rates - rates.mean(),
        log_cores=cores - cores.mean(),
        replicas_share=on_node / on_node.sum(),
        slowest_bytes_per_second=min(_route_rate(cluster, *pair) for pair in pairs),
        node_of_server=np.array([number[device.node] for device in cluster.server_devices], dtype=np.intp),
        attached=np.array(
            [[node.name in (link.source, link.target) for link in cluster.links] for node in cluster.nodes]
        ),
        switched=_switched(cluster),
    )


def _route_rate(cluster: ClusterSpec, source: str, target: str) -> float:
    """Bytes a second over the slowest link of a route."""
    return min(link.bytes_per_second for link in cluster.route(source, target))


def _mean_log_rate(cluster: ClusterSpec, node: str, replica_nodes: list[str]) -> float:
    others = [each for each in replica_nodes if each != node] or [node]
    return float(np.mean([np.log(_route_rate(cluster, node, each)) for each in others]))


def _switched(cluster: ClusterSpec) -> IntArray:
    number = {name: place for place, name in enumerate(cluster.switches)}
    pairs = [
        (place, number[end])
        for place, link in enumerate(cluster.links)
        for end in (link.source, link.target)
        if end in number
    ]
    return np.asarray(np.array(pairs, dtype=np.intp).reshape(-1, 2).T)
