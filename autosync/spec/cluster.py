"""The cluster noun: nodes with their devices, joined by directed links, perhaps through switches."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from autosync.errors import SpecError
from autosync.spec.cached_hash import CachedHash
from autosync.spec.codec import Noun, digest, first_repeated
from autosync.spec.node import LONGEST_NAME, MOST_DEVICES, MOST_NODES, Device, Figure, Node
from autosync.spec.pace_report import kind_of
from autosync.spec.quoting import quote, shorten_list

MOST_LINKS, MOST_CROSSED = 16_384, 16
"""The most links of a cluster, and the most that a route crosses."""

MOST_LATER, MOST_AFTER_SECONDS = 100, 1e9
"""The most changes of a link's rate, and the most seconds after which the rate may change."""


@dataclass(frozen=True)
class LaterRate(Noun, what="A later rate"):
    """The rate of an emulated link from `after_seconds` on, counted from the start of the cluster."""

    after_seconds: float
    gbit_per_s: Figure


@dataclass(frozen=True)
class Link(Noun, what="A link"):
    """One direction of a connection between two nodes or switches, or the loopback of a node."""

    source: str
    target: str
    gbit_per_s: Figure
    """Rate; its reciprocal is the time per bit (beta)."""
    latency_us: Figure
    """Time of an empty message in microseconds (alpha)."""
    later: tuple[LaterRate, ...] | None = None
    """Later rates in order of time; until the first of them, the rate is `gbit_per_s`. None if the rate is constant."""

    def __post_init__(self) -> None:
        if self.later is None:
            return
        times = [change.after_seconds for change in self.later]
        if not times or not all(0 < time <= MOST_AFTER_SECONDS for time in times) or times != sorted(set(times)):
            raise SpecError(
                f"A link changes after times above zero that increase, up to {MOST_AFTER_SECONDS:g} s, not after "
                f"{shorten_list([f'{time:g}' for time in times]) or 'none'}."
            )
        if len(times) > MOST_LATER:
            raise SpecError(f"A link changes at most {MOST_LATER} times, not {len(times)}; state fewer changes.")

    @property
    def coarse_rate(self) -> int:
        """The rate as a multiple of half an octave: 2 log2 of the rate in Gbit/s, rounded."""
        return _half_octaves(self.gbit_per_s)

    @property
    def coarse_rates(self) -> tuple[int | tuple[float, int], ...]:
        """The rounded rate, followed by the times and rounded rates of later changes."""
        later = self.later or ()
        return self.coarse_rate, *((change.after_seconds, _half_octaves(change.gbit_per_s)) for change in later)

    @property
    def bytes_per_second(self) -> float:
        return self.gbit_per_s.value * 1e9 / 8

    @property
    def latency_seconds(self) -> float:
        return self.latency_us.value * 1e-6


@dataclass(frozen=True)
class ClusterSpec(CachedHash, Noun, what="A cluster", keys=("nodes", "switches", "links")):
    """Nodes, switches and the directed links between them. A route must join every pair of nodes."""

    nodes: tuple[Node, ...]
    links: tuple[Link, ...]
    switches: tuple[str, ...] = ()

    __hash__ = CachedHash.__hash__

    def __post_init__(self) -> None:
        if not self.nodes:
            raise SpecError("A cluster needs at least one node; none was given.")
        self._check_size()
        names = [node.name for node in self.nodes] + list(self.switches)
        if first_repeated(names) is not None:
            raise SpecError(f"Nodes and switches need different names; given: {shorten_list(names)}.")
        if any(not name or len(name) > LONGEST_NAME for name in self.switches):
            raise SpecError(
                f"A switch's name has 1 to {LONGEST_NAME} characters; given: {shorten_list(self.switches)}."
            )
        self._check_paces()
        known = set(names)
        for link in self.links:
            for end in (link.source, link.target):
                if end not in known:
                    raise SpecError(
                        f"A link ends at {quote(end)}, which is no node or switch. Known: {shorten_list(names)}."
                    )
        self._check_routes()

    def _check_paces(self) -> None:
        numbers = {node.pace.numbers if node.pace else None for node in self.nodes}
        if len(numbers) > 1:
            without = [node.name for node in self.nodes if node.pace is None]
            fault = (
                f"without a pace are {shorten_list(without)}"
                if without
                else "here both recorded and held are asked for"
            )
            raise SpecError(
                f"Either all nodes of a cluster are paced, with the same kind of numbers, or no node is; {fault}."
            )

    @property
    def numbers(self) -> str:
        """The kind of gradients that passes give: *real*, or on paced nodes *recorded* or *held*."""
        pace = self.nodes[0].pace
        return "real" if pace is None else pace.numbers

    @property
    def time(self) -> str:
        """The kind of pass durations: *real*, or *paced* if nodes wait until a pass's time is over."""
        return "paced" if self.paced else "real"

    @property
    def kind(self) -> str:
        """Time and numbers in a word: *real*, or such as *paced-recorded*. Different kinds are never compared."""
        return kind_of(self.time, self.numbers)

    @property
    def paced(self) -> bool:
        return self.nodes[0].pace is not None

    @property
    def with_real_gradients(self) -> ClusterSpec:
        """The same cluster; if nodes are paced, their passes compute gradients and hold them until their time."""
        nodes = [replace(node, pace=node.pace and replace(node.pace, numbers="held")) for node in self.nodes]
        return replace(self, nodes=tuple(nodes)) if self.numbers == "recorded" else self

    @cached_property
    def phase_starts(self) -> tuple[float, ...]:
        """Seconds from the start of the cluster to the start of each phase; links change between phases. The first
        start is 0."""
        return (0.0, *sorted({change.after_seconds for link in self.links for change in link.later or ()}))

    @property
    def changes(self) -> bool:
        """Whether links change their rates; only links of an emulated cluster can."""
        return len(self.phase_starts) > 1

    def at(self, seconds: float) -> ClusterSpec:
        """The cluster with the rates that its links have `seconds` after its start."""
        links = []
        for link in self.links:
            past = [change.gbit_per_s for change in link.later or () if change.after_seconds <= seconds]
            links.append(replace(link, gbit_per_s=past[-1]) if past else link)
        return replace(self, links=tuple(links))

    def _check_size(self) -> None:
        counts = {
            "nodes": (len(self.nodes), MOST_NODES),
            "switches": (len(self.switches), MOST_NODES),
            "links": (len(self.links), MOST_LINKS),
            "workers and GPUs": (sum(node.workers + node.gpus for node in self.nodes), MOST_DEVICES),
        }
        for what, (count, most) in counts.items():
            if count > most:
                raise SpecError(f"A cluster has at most {most} {what}, not {count}; state a smaller one.")

    @classmethod
    def star(
        cls,
        nodes: tuple[Node, ...],
        link_gbit_per_s: Figure,
        link_latency_us: Figure,
        host_gbit_per_s: Figure,
        host_latency_us: Figure,
    ) -> ClusterSpec:
        """A cluster with all nodes on one switch; each node has an uplink, a downlink and a loopback.

        Each of a route's two links has half its latency.
        """
        half = Figure(link_latency_us.value / 2, link_latency_us.source)
        links = [Link(node.name, node.name, host_gbit_per_s, host_latency_us) for node in nodes]
        if len(nodes) == 1:
            return cls(nodes, tuple(links))
        for node in nodes:
            links += [
                Link(node.name, "switch", link_gbit_per_s, half),
                Link("switch", node.name, link_gbit_per_s, half),
            ]
        return cls(nodes, tuple(links), ("switch",))

    @cached_property
    def digest(self) -> str:
        """Identity of the cluster: its composition, not its location.

        The digest omits addresses, latencies and the hosts' figures, and rounds rates to half powers of two, so that
        probing a cluster twice gives the same digest, except if a rate is at a rounding edge. It includes later rates.
        """
        document = self.to_json()
        for node in document["nodes"]:
            for field in ("address", "copy_gbit_per_s", "message_us"):
                node.pop(field, None)
        document["links"] = sorted([link.source, link.target, *link.coarse_rates] for link in self.links)
        return digest(document)

    @cached_property
    def replica_devices(self) -> tuple[Device, ...]:
        """The devices that replicas run on: a node's GPUs, or its worker processes if the node has no GPU."""
        return tuple(device for node in self.nodes for device in (node.gpu_devices or node.cpu_devices))

    @cached_property
    def server_devices(self) -> tuple[Device, ...]:
        """The devices that parameter servers may live on: the CPU of every worker process."""
        return tuple(device for node in self.nodes for device in node.cpu_devices)

    def node(self, name: str) -> Node:
        """The node called `name`. Raises `SpecError` that lists all nodes if there is none."""
        for node in self.nodes:
            if node.name == name:
                return node
        raise SpecError(
            f"The cluster has no node {quote(name)}. Nodes: {shorten_list([node.name for node in self.nodes])}."
        )

    def route(self, source: str, target: str) -> tuple[Link, ...]:
        """The links from node `source` to node `target`: the first route with the fewest links, or the loopback."""
        beyond = self._routes_beyond[self._first_hops[source]] if source in self._first_hops else {}
        loopback = self._direct_links.get((source, source))
        if source == target and loopback is not None:
            return (loopback,)
        if source == target or target not in beyond or target not in self._first_hops:
            raise SpecError(
                f"No route leads from {quote(source)} to {quote(target)}; add the missing links. "
                f"A route crosses at most {MOST_CROSSED}."
            )
        first, rest = beyond[target]
        return (self._direct_links[source, first], *rest)

    def _check_routes(self) -> None:
        """Raise `SpecError` for the first two nodes that no route joins."""
        names = [node.name for node in self.nodes]
        for source in names:
            beyond = self._routes_beyond[self._first_hops[source]]
            others = len(beyond) - (source in beyond)
            if others + 1 < len(names) or (source, source) not in self._direct_links:
                for target in names:
                    self.route(source, target)

    @cached_property
    def _direct_links(self) -> dict[tuple[str, str], Link]:
        """The first link between every two ends, or the last loopback, in the order of links."""
        direct: dict[tuple[str, str], Link] = {}
        for link in self.links:
            if link.source == link.target:
                direct[link.source, link.target] = link
            else:
                direct.setdefault((link.source, link.target), link)
        return direct

    @cached_property
    def _first_hops(self) -> dict[str, tuple[str, ...]]:
        """The targets of each node's links, in order. Nodes with the same first hops share all routes beyond them."""
        hops: dict[str, list[str]] = {node.name: [] for node in self.nodes}
        for source, target in self._direct_links:
            if source in hops and source != target:
                hops[source].append(target)
        return {name: tuple(targets) for name, targets in hops.items()}

    @cached_property
    def _routes_beyond(self) -> dict[tuple[str, ...], dict[str, tuple[str, tuple[Link, ...]]]]:
        """For each tuple of first hops and each node: the hop on the route to the node, and the links after the hop."""
        leaving: dict[str, list[Link]] = {}
        for (source, target), link in self._direct_links.items():
            if source != target:
                leaving.setdefault(source, []).append(link)
        names = {node.name for node in self.nodes}
        return {hops: _shortest_routes(hops, leaving, names) for hops in dict.fromkeys(self._first_hops.values())}


def _shortest_routes(
    hops: Sequence[str], leaving: Mapping[str, Sequence[Link]], nodes: Collection[str]
) -> dict[str, tuple[str, tuple[Link, ...]]]:
    """The first hop and the links after it on the shortest route to each reachable node, by breadth-first search."""
    paths: dict[str, tuple[str, tuple[Link, ...]]] = {hop: (hop, ()) for hop in hops}
    queue = deque(hops)
    while queue:
        here = queue.popleft()
        first, path = paths[here]
        if here in nodes or len(path) + 1 == MOST_CROSSED:
            continue  # traffic passes through switches, never through another node
        for link in leaving.get(here, ()):
            if link.target not in paths:
                paths[link.target] = first, (*path, link)
                queue.append(link.target)
    return {end: path for end, path in paths.items() if end in nodes}


def _half_octaves(rate: Figure) -> int:
    """2 log2 of the rate in Gbit/s, rounded."""
    return round(2 * math.log2(rate.value))
