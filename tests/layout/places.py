"""Builds topologies from the nodes of replicas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from autosync.layout.topology import Topology
from autosync.spec import ClusterSpec, Figure, Node

__all__ = ["on_nodes"]


def on_nodes(nodes: Sequence[str]) -> Topology:
    """Replicas on the given nodes of one switch, one worker process each."""
    workers, placed = Counter(nodes), Counter[str]()
    replicas = []
    for node in nodes:
        replicas.append(f"{node}/cpu:{placed[node]}")
        placed[node] += 1
    rate, latency = Figure(1.0, "stated"), Figure(100.0, "stated")
    spec = tuple(Node(node, "", 2.0, workers=count) for node, count in workers.items())
    return Topology(ClusterSpec.star(spec, rate, latency, rate, latency), tuple(replicas))
