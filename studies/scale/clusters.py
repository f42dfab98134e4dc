"""The clusters: the original's two, that of its published benchmark, and four scales with one or eight GPUs per node.

The original states that cluster A has 11 nodes with one TITAN X each and 40 Gbit/s, and cluster B has 4 nodes with four
T4 each and 50 Gbit/s. Its published benchmark used up to 8 nodes like those of B. All other figures are assumed and
marked as such.
"""

from collections.abc import Mapping
from types import MappingProxyType

from autosync.errors import SpecError
from autosync.spec import ClusterSpec, Figure, Node

LATENCY_US, HOST_GBIT_PER_S, HOST_LATENCY_US = 30.0, 100.0, 10.0

SCALES = (16, 64, 256, 1024)


def _star(nodes: int, gpus: int, cores: float, gbit_per_s: float, source: str) -> ClusterSpec:
    """Return identical nodes on one switch without a limit."""
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
"""The clusters by name; a scale is named by its number of nodes and GPUs per node."""


def check_clusters(names: tuple[str, ...]) -> None:
    """Raise `SpecError` unless all names are clusters."""
    for name in names:
        if name not in CLUSTERS:
            raise SpecError(f"--clusters needs names among {', '.join(CLUSTERS)}, but has {name!r}.")


def in_words(name: str) -> str:
    """Describe a cluster: its nodes, GPUs and links."""
    cluster = CLUSTERS[name]
    rate = next(link.gbit_per_s for link in cluster.links if link.source != link.target)
    nodes, gpus = len(cluster.nodes), cluster.nodes[0].gpus
    return f"{nodes} nodes with {gpus} GPU{'s' * (gpus > 1)} each, {rate.value:g} Gbit/s ({rate.source})"
