"""The clusters: the original's two and its published benchmark's, and four scales with one GPU a node, and with eight.

What is stated of the original's: cluster A has 11 nodes with a TITAN X each and 40 Gbit/s; cluster B 4 nodes with four
T4 each and 50 Gbit/s; its published benchmark used up to 8 nodes like B's. All else is assumed and marked so.
"""

from collections.abc import Mapping
from types import MappingProxyType

from autosync.errors import SpecError
from autosync.spec import ClusterSpec, Figure, Node

LATENCY_US, HOST_GBIT_PER_S, HOST_LATENCY_US = 30.0, 100.0, 10.0

SCALES = (16, 64, 256, 1024)


def _star(nodes: int, gpus: int, cores: float, gbit_per_s: float, source: str) -> ClusterSpec:
    """Nodes alike on one switch that is no limit."""
    return ClusterSpec.star(
        tuple(Node(f"node{number}", "", cores, gpus=gpus) for number in range(nodes)),
        Figure(gbit_per_s, source),
        Figure(LATENCY_US, "assumed"),
        Figure(HOST_GBIT_PER_S, "assumed"),
        Figure(HOST_LATENCY_US, "assumed"),
    )


CLUSTERS: Mapping[str, ClusterSpec] = MappingProxyType(
    {
        "A": _star(11, 1, 16.0, 40.0, "stated"),
        "B": _star(4, 4, 48.0, 50.0, "stated"),
        "B-32": _star(8, 4, 48.0, 50.0, "stated"),
    }
    | {f"{count}x1": _star(count, 1, 16.0, 40.0, "assumed") for count in SCALES}
    | {f"{count // 8}x8": _star(count // 8, 8, 96.0, 100.0, "assumed") for count in SCALES}
)
"""Each cluster by name; those of a scale are called by their nodes and the GPUs of each."""


def check_clusters(names: tuple[str, ...]) -> None:
    """Raise `SpecError` unless there are these clusters."""
    for name in names:
        if name not in CLUSTERS:
            raise SpecError(f"Clusters at scale are {', '.join(CLUSTERS)}; {name!r} is none of them.")


def in_words(name: str) -> str:
    """What a cluster is: its nodes, GPUs and links."""
    cluster = CLUSTERS[name]
    rate = next(link.gbit_per_s for link in cluster.links if link.source != link.target)
    nodes, gpus = len(cluster.nodes), cluster.nodes[0].gpus
    return f"{nodes} nodes with {gpus} GPU{'s' * (gpus > 1)} each, {rate.value:g} Gbit/s ({rate.source})"
