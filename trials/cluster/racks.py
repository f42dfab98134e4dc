"""Joins nodes to a cluster, on one switch or in racks; parses stars such as `4x200mbit`; infers implied clusters.

Each rack is a switch, and one more switch, the core, joins the racks. All traffic from a rack to other nodes goes over
the rack's single uplink. Nodes outside of racks are attached to the core.
"""

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from autosync.errors import ClusterError
from autosync.spec import ClusterSpec, Device, Figure, LaterRate, Link, Node, ParameterServer, Strategy, quote

CORE, ONLY_SWITCH = "core", "switch"


@dataclass(frozen=True)
class Uplink:
    """The link that joins a node or a rack to the switch above it."""

    up: Figure
    down: Figure
    latency_us: Figure
    """The latency of each direction."""
    up_later: tuple[LaterRate, ...] | None = None
    """The later rates of the direction up; None if the rate does not change."""
    down_later: tuple[LaterRate, ...] | None = None

    def links(self, below: str, above: str) -> tuple[Link, Link]:
        return (
            Link(below, above, self.up, self.latency_us, self.up_later),
            Link(above, below, self.down, self.latency_us, self.down_later),
        )


# These figures are used until a probe has measured the links, and are always shown as assumed.
ASSUMED_UPLINK = Uplink(Figure(1.0, "assumed"), Figure(1.0, "assumed"), Figure(100.0, "assumed"))
ASSUMED_HOST_GBIT_PER_S, ASSUMED_HOST_LATENCY_US = Figure(8.0, "assumed"), Figure(100.0, "assumed")


@dataclass(frozen=True)
class AttachedNode:
    """A node with its uplink to the switch of `rack`; without a rack, to the core switch."""

    node: Node
    uplink: Uplink
    rack: str | None = None


def join_nodes(attached: Sequence[AttachedNode], racks: Mapping[str, Uplink]) -> ClusterSpec:
    """Return the cluster of all `attached` nodes, in that order, and of the used `racks`; loopbacks are assumed.

    Raises `SpecError` if names clash, and `KeyError` for a rack that is not in `racks`.
    """
    nodes = tuple(attachment.node for attachment in attached)
    links = [Link(node.name, node.name, ASSUMED_HOST_GBIT_PER_S, ASSUMED_HOST_LATENCY_US) for node in nodes]
    if len(nodes) == 1:
        return ClusterSpec(nodes, tuple(links))
    used = list(dict.fromkeys(attachment.rack for attachment in attached if attachment.rack is not None))
    top = CORE if used else ONLY_SWITCH
    for attachment in attached:
        links += attachment.uplink.links(attachment.node.name, attachment.rack or top)
    if len(used) == 1 and all(attachment.rack for attachment in attached):
        return ClusterSpec(nodes, tuple(links), tuple(used))
    for rack in used:
        links += racks[rack].links(rack, top)
    return ClusterSpec(nodes, tuple(links), (*used, top))


def parse_rate(text: str) -> float:
    """Return Gbit/s of a rate such as `200mbit` or `1.5gbit`. Raises `ClusterError`."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(mbit|gbit)", text)
    if not match or not float(match[1]) > 0:
        raise ClusterError(
            f"A rate is written like 200mbit or 1.5gbit, in small letters and above zero, not {quote(text)}."
        )
    return float(match[1]) / 1000 if match[2] == "mbit" else float(match[1])


MOST_NODES = 250
"""The largest number of nodes of an emulated cluster, whose addresses start at 10.77.0.1 in one /24."""


def parse_emulation(text: str) -> ClusterSpec:
    """Return the star named by a text such as `4x200mbit` or `3x1.5gbit`. Raises `ClusterError`."""
    match = re.fullmatch(r"(\d{1,3})x(.+)", text)
    if not match:
        raise ClusterError(
            f"An emulated cluster is written like 4x200mbit (nodes, then each link's rate), not {quote(text)}."
        )
    return star_of(int(match[1]), parse_rate(match[2]))


def star_of(count: int, rate_gbit_per_s: float, cores: float | None = None) -> ClusterSpec:
    """Return `count` nodes on one switch, each link with that rate in both directions.

    A node has `cores`; by default the nodes share all of the machine's cores. Raises `ClusterError`.
    """
    if not 1 <= count <= MOST_NODES:
        raise ClusterError(f"An emulated cluster has 1 to {MOST_NODES} nodes, not {count}.")
    node_cores = float(cores or os.cpu_count() or 1)
    uplink = replace(ASSUMED_UPLINK, up=Figure(rate_gbit_per_s, "stated"), down=Figure(rate_gbit_per_s, "stated"))
    nodes = [Node(f"node{index}", f"10.77.0.{index + 1}", node_cores) for index in range(count)]
    return join_nodes([AttachedNode(node, uplink) for node in nodes], {})


ASSUMED_CORES = 4.0


def infer_cluster(strategy: Strategy) -> ClusterSpec:
    """Return the smallest cluster (nodes, workers, GPUs) with all devices of `strategy`.

    Raises `SpecError` for a bad name.
    """
    names = [*strategy.replicas, *_servers(strategy)]
    devices = [Device.parse(name) for name in names]
    nodes = dict.fromkeys(device.node for device in devices)
    gpus, workers = _counts(devices, "gpu"), _counts(devices, "cpu")
    return join_nodes(
        [
            AttachedNode(Node(node, "", ASSUMED_CORES, max(1, workers[node]), gpus[node]), ASSUMED_UPLINK)
            for node in nodes
        ],
        {},
    )


def _servers(strategy: Strategy) -> list[str]:
    return [shard.device for _, _, shard in strategy.shards() if isinstance(shard, ParameterServer)]


def _counts(devices: list[Device], kind: str) -> Counter[str]:
    """Return the highest index of a kind on each node, plus one."""
    counts: Counter[str] = Counter()
    for device in devices:
        if device.kind == kind:
            counts[device.node] = max(counts[device.node], device.index + 1)
    return counts
