"""Nodes joined to a cluster, all on one switch or in racks.

Each rack is a switch, and one more switch, the core, joins the racks: what a rack's nodes send to others all goes over
the rack's one uplink. Nodes outside of racks hang on the core.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autosync.spec import ClusterSpec, Figure, Link, Node

__all__ = ["ASSUMED_UPLINK", "CORE", "Attached", "Uplink", "joined"]

CORE, ONLY_SWITCH = "core", "switch"


@dataclass(frozen=True)
class Uplink:
    """The link that joins a node or a rack to the switch above it; `latency_us` is each direction's."""

    up: Figure
    down: Figure
    latency_us: Figure

    def links(self, below: str, above: str) -> tuple[Link, Link]:
        return Link(below, above, self.up, self.latency_us), Link(above, below, self.down, self.latency_us)


# These hold until a probe has measured links, and are marked as assumed wherever they are shown.
ASSUMED_UPLINK = Uplink(Figure(1.0, "assumed"), Figure(1.0, "assumed"), Figure(100.0, "assumed"))
ASSUMED_HOST_GBIT_PER_S, ASSUMED_HOST_LATENCY_US = Figure(8.0, "assumed"), Figure(100.0, "assumed")


@dataclass(frozen=True)
class Attached:
    """A node with its uplink, to the switch of `rack`, or to the one that joins all when it is in none."""

    node: Node
    uplink: Uplink
    rack: str | None = None


def joined(attached: Sequence[Attached], racks: Mapping[str, Uplink]) -> ClusterSpec:
    """The cluster of all `attached`, in that order, and of those `racks` that nodes are in; loopbacks are assumed.

    Raises `SpecError` where names clash and `KeyError` for a rack that is not in `racks`.
    """
    nodes = tuple(each.node for each in attached)
    links = [Link(node.name, node.name, ASSUMED_HOST_GBIT_PER_S, ASSUMED_HOST_LATENCY_US) for node in nodes]
    if len(nodes) == 1:
        return ClusterSpec(nodes, tuple(links))
    used = list(dict.fromkeys(each.rack for each in attached if each.rack is not None))
    top = CORE if used else ONLY_SWITCH
    for each in attached:
        links += each.uplink.links(each.node.name, each.rack or top)
    if len(used) == 1 and all(each.rack for each in attached):
        return ClusterSpec(nodes, tuple(links), tuple(used))
    for rack in used:
        links += racks[rack].links(rack, top)
    return ClusterSpec(nodes, tuple(links), (*used, top))
