"""Nodes joined to a cluster, on one switch or in racks; stars by a text such as `4x200mbit`; implied clusters.

Each rack is a switch, and one more switch, the core, joins the racks: what a rack's nodes send to others all goes over
the rack's one uplink. Nodes outside of racks hang on the core.
"""

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from autosync.errors import ClusterError
from autosync.spec import ClusterSpec, Device, Figure, LaterRate, Link, Node, ParameterServer, Strategy, quoted

CORE, ONLY_SWITCH = "core", "switch"


@dataclass(frozen=True)
class Uplink:
    """The link that joins a node or a rack to the switch above it; `latency_us` is each direction's."""

    up: Figure
    down: Figure
    latency_us: Figure
    up_later: tuple[LaterRate, ...] | None = None
    down_later: tuple[LaterRate, ...] | None = None

    def links(self, below: str, above: str) -> tuple[Link, Link]:
        return (
            Link(below, above, self.up, self.latency_us, self.up_later),
            Link(above, below, self.down, self.latency_us, self.down_later),
        )


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


def parse_rate(text: str) -> float:
    """Gbit/s of a rate such as `200mbit` or `1.5gbit`. Raises `ClusterError`."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(mbit|gbit)", text)
    if not found or not float(found[1]) > 0:
        raise ClusterError(
            f"A rate is written like 200mbit or 1.5gbit, in small letters and above zero, not {quoted(text)}."
        )
    return float(found[1]) / 1000 if found[2] == "mbit" else float(found[1])


MOST_NODES = 250
"""The most nodes of an emulated cluster: their addresses are 10.77.0.1 and on, in one /24."""


def parse_emulation(text: str) -> ClusterSpec:
    """The star that a text such as `4x200mbit` or `3x1.5gbit` names. Raises `ClusterError`."""
    found = re.fullmatch(r"(\d{1,3})x(.+)", text)
    if not found:
        raise ClusterError(
            f"An emulated cluster is written like 4x200mbit (nodes, then each link's rate), not {quoted(text)}."
        )
    return star_of(int(found[1]), parse_rate(found[2]))


def star_of(count: int, rate_gbit_per_s: float, cores: float | None = None) -> ClusterSpec:
    """`count` nodes on one switch, each link of that rate both ways.

    A node has `cores`; without them all of the machine's, which the nodes then share. Raises `ClusterError`.
    """
    if not 1 <= count <= MOST_NODES:
        raise ClusterError(f"An emulated cluster has 1 to {MOST_NODES} nodes, not {count}.")
    each = float(cores or os.cpu_count() or 1)
    uplink = replace(ASSUMED_UPLINK, up=Figure(rate_gbit_per_s, "stated"), down=Figure(rate_gbit_per_s, "stated"))
    nodes = [Node(f"node{index}", f"10.77.0.{index + 1}", each) for index in range(count)]
    return joined([Attached(node, uplink) for node in nodes], {})


ASSUMED_CORES = 4.0


def implied_cluster(strategy: Strategy) -> ClusterSpec:
    """The cluster of the fewest nodes, workers and GPUs for all devices. Raises `SpecError` for no device's name."""
    names = [*strategy.replicas, *_servers(strategy)]
    devices = [Device.parse(name) for name in names]
    nodes = dict.fromkeys(device.node for device in devices)
    gpus, workers = _counts(devices, "gpu"), _counts(devices, "cpu")
    return joined(
        [Attached(Node(node, "", ASSUMED_CORES, max(1, workers[node]), gpus[node]), ASSUMED_UPLINK) for node in nodes],
        {},
    )


def _servers(strategy: Strategy) -> list[str]:
    return [shard.device for _, _, shard in strategy.shards() if isinstance(shard, ParameterServer)]


def _counts(devices: list[Device], kind: str) -> Counter[str]:
    """The highest index of a kind on each node, plus one."""
    counts: Counter[str] = Counter()
    for device in devices:
        if device.kind == kind:
            counts[device.node] = max(counts[device.node], device.index + 1)
    return counts
