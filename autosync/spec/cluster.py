"""The cluster noun: nodes with their devices, joined by directed links, perhaps through switches."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from autosync.errors import SpecError
from autosync.spec.codec import Noun, digest, first_repeated
from autosync.spec.kept import kind_of
from autosync.spec.kept_hash import KeptHash
from autosync.spec.node import LONGEST_NAME, MOST_DEVICES, MOST_NODES, Device, Figure, Node
from autosync.spec.quoting import listed, quoted

MOST_LINKS, MOST_CROSSED = 16_384, 16
"""The most links of a cluster, and the most that a route crosses."""

MOST_LATER, MOST_AFTER_SECONDS = 100, 1e9
"""The most rates that a link changes to, and the most seconds after which it does."""


@dataclass(frozen=True)
class LaterRate(Noun, what="A later rate"):
    """The rate that a link of an emulated cluster has from `after_seconds` on, counted from when that is up."""

    after_seconds: float
    gbit_per_s: Figure


@dataclass(frozen=True)
class Link(Noun, what="A link"):
    """One direction of a connection between two nodes or switches; from a node to itself it is the loopback.

    `latency_us` is the time of an empty message (alpha), 1/`gbit_per_s` the time a bit (beta). A link that changes has
    the rates `later`, in order of time; until the first of them it has `gbit_per_s`.
    """

    source: str
    target: str
    gbit_per_s: Figure
    latency_us: Figure
    later: tuple[LaterRate, ...] | None = None

    def __post_init__(self) -> None:
        if self.later is None:
            return
        times = [each.after_seconds for each in self.later]
        if not times or not all(0 < time <= MOST_AFTER_SECONDS for time in times) or times != sorted(set(times)):
            raise SpecError(
                f"A link changes after times above zero that increase, up to {MOST_AFTER_SECONDS:g} s, not after "
                f"{listed([f'{time:g}' for time in times]) or 'none'}."
            )
        if len(times) > MOST_LATER:
            raise SpecError(f"A link changes at most {MOST_LATER} times, not {len(times)}; state fewer changes.")

    @property
    def rounded_rate(self) -> int:
        """Its rate in half powers of two."""
        return _rounded(self.gbit_per_s)

    @property
    def rounded_rates(self) -> tuple[int | tuple[float, int], ...]:
        """Its rate, and then those it has later with their times, each rounded to half powers of two."""
        return self.rounded_rate, *((each.after_seconds, _rounded(each.gbit_per_s)) for each in self.later or ())

    @property
    def bytes_per_second(self) -> float:
        return self.gbit_per_s.value * 1e9 / 8

    @property
    def latency_seconds(self) -> float:
        return self.latency_us.value * 1e-6


@dataclass(frozen=True)
class ClusterSpec(KeptHash, Noun, what="A cluster", keys=("nodes", "switches", "links")):
    """Nodes, switches and the directed links between them. Every pair of nodes must be joined by a route."""

    nodes: tuple[Node, ...]
    links: tuple[Link, ...]
    switches: tuple[str, ...] = ()

    __hash__ = KeptHash.__hash__

    def __post_init__(self) -> None:
        if not self.nodes:
            raise SpecError("A cluster needs at least one node; none was given.")
        self._check_size()
        names = [node.name for node in self.nodes] + list(self.switches)
        if first_repeated(names) is not None:
            raise SpecError(f"Nodes and switches need different names; given: {listed(names)}.")
        if any(not name or len(name) > LONGEST_NAME for name in self.switches):
            raise SpecError(f"A switch's name has 1 to {LONGEST_NAME} characters; given: {listed(self.switches)}.")
        self._check_paces()
        known = set(names)
        for link in self.links:
            for end in (link.source, link.target):
                if end not in known:
                    raise SpecError(
                        f"A link ends at {quoted(end)}, which is no node or switch. Known: {listed(names)}."
                    )
        self._check_routes()

    def _check_paces(self) -> None:
        numbers = {node.pace.numbers if node.pace else None for node in self.nodes}
        if len(numbers) > 1:
            without = [node.name for node in self.nodes if node.pace is None]
            said = f"without one are {listed(without)}" if without else "here both recorded and held are asked for"
            raise SpecError(f"All nodes of a cluster are paced, and give the same kind of numbers, or none is; {said}.")

    @property
    def numbers(self) -> str:
        """The results of passes: *real* gradients, or on paced nodes *recorded* or *held* ones."""
        pace = self.nodes[0].pace
        return "real" if pace is None else pace.numbers

    @property
    def time(self) -> str:
        """How long passes take: *real* ones as long as they do, *paced* ones as long as they are waited for."""
        return "paced" if self.paced else "real"

    @property
    def kind(self) -> str:
        """Both in a word: *real*, or as *paced-recorded*. Seconds of different kinds are never compared."""
        return kind_of(self.time, self.numbers)

    @property
    def paced(self) -> bool:
        return self.nodes[0].pace is not None

    @property
    def with_real_gradients(self) -> ClusterSpec:
        """The same cluster; if it is paced, its passes compute, and hold what they give until its time."""
        nodes = [replace(each, pace=each.pace and replace(each.pace, numbers="held")) for each in self.nodes]
        return replace(self, nodes=tuple(nodes)) if self.numbers == "recorded" else self

    @cached_property
    def phase_starts(self) -> tuple[float, ...]:
        """When the phases begin, between which links change, in seconds from when the cluster is up; the first is 0."""
        return (0.0, *sorted({each.after_seconds for link in self.links for each in link.later or ()}))

    @property
    def changes(self) -> bool:
        """Whether links change, as those of an emulated cluster may."""
        return len(self.phase_starts) > 1

    def at(self, seconds: float) -> ClusterSpec:
        """The cluster with the rates that its links have `seconds` after it is up."""
        links = []
        for link in self.links:
            begun = [each.gbit_per_s for each in link.later or () if each.after_seconds <= seconds]
            links.append(replace(link, gbit_per_s=begun[-1]) if begun else link)
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
        """A cluster with all nodes on one switch, each with an uplink, a downlink and a loopback.

        A route's latency is halved over its two links.
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
        """Identity of the cluster: what it is made of, not where it is.

        Addresses, latencies and the hosts' figures are left out, and rates are rounded to half powers of two, so that
        probing the same cluster twice gives the same digest (but for a rate at a rounding edge). Rates that links have
        later are part of it.
        """
        document = self.to_json()
        for node in document["nodes"]:
            for field in ("address", "copy_gbit_per_s", "message_us"):
                node.pop(field, None)
        document["links"] = sorted([link.source, link.target, *link.rounded_rates] for link in self.links)
        return digest(document)

    @cached_property
    def replica_devices(self) -> tuple[Device, ...]:
        """The devices that replicas run on: a node's GPUs, or its worker processes when it has none."""
        return tuple(device for node in self.nodes for device in (node.gpu_devices or node.cpu_devices))

    @cached_property
    def server_devices(self) -> tuple[Device, ...]:
        """The devices that parameter servers may live on: the CPU of every worker process."""
        return tuple(device for node in self.nodes for device in node.cpu_devices)

    def node(self, name: str) -> Node:
        """The node called `name`. Raises `SpecError`, listing the nodes there are."""
        for node in self.nodes:
            if node.name == name:
                return node
        raise SpecError(f"The cluster has no node {quoted(name)}. Nodes: {listed([each.name for each in self.nodes])}.")

    def route(self, source: str, target: str) -> tuple[Link, ...]:
        """Links crossed from node `source` to node `target`, fewest first found; the loopback within a node."""
        beyond = self._reached[self._ways_out[source]] if source in self._ways_out else {}
        loopback = self._leaving.get((source, source))
        if source == target and loopback is not None:
            return (loopback,)
        if source == target or target not in beyond or target not in self._ways_out:
            raise SpecError(
                f"No route leads from {quoted(source)} to {quoted(target)}; add the missing links. "
                f"A route crosses at most {MOST_CROSSED}."
            )
        first, rest = beyond[target]
        return (self._leaving[source, first], *rest)

    def _check_routes(self) -> None:
        """Raise `SpecError` for the first two nodes that no route joins."""
        names = [node.name for node in self.nodes]
        for source in names:
            beyond = self._reached[self._ways_out[source]]
            others = len(beyond) - (source in beyond)
            if others + 1 < len(names) or (source, source) not in self._leaving:
                for target in names:
                    self.route(source, target)

    @cached_property
    def _leaving(self) -> dict[tuple[str, str], Link]:
        """The first link, and of loopbacks the last, from each node or switch to each other, in the order of links."""
        found: dict[tuple[str, str], Link] = {}
        for link in self.links:
            if link.source == link.target:
                found[link.source, link.target] = link
            else:
                found.setdefault((link.source, link.target), link)
        return found

    @cached_property
    def _ways_out(self) -> dict[str, tuple[str, ...]]:
        """Where the links of each node lead to, in their order: nodes that have that in common share routes beyond."""
        found: dict[str, list[str]] = {node.name: [] for node in self.nodes}
        for source, target in self._leaving:
            if source in found and source != target:
                found[source].append(target)
        return {name: tuple(targets) for name, targets in found.items()}

    @cached_property
    def _reached(self) -> dict[tuple[str, ...], dict[str, tuple[str, tuple[Link, ...]]]]:
        """Of each way out: the end of its first link on the route to each node, and the links behind that one."""
        leaving: dict[str, list[Link]] = {}
        for (source, target), link in self._leaving.items():
            if source != target:
                leaving.setdefault(source, []).append(link)
        names = {node.name for node in self.nodes}
        return {ways: _reached_by(ways, leaving, names) for ways in dict.fromkeys(self._ways_out.values())}


def _reached_by(
    ways: Sequence[str], leaving: Mapping[str, Sequence[Link]], nodes: Collection[str]
) -> dict[str, tuple[str, tuple[Link, ...]]]:
    """The nodes reached by links to `ways`: over which of these, and the links behind it, fewest first found."""
    paths: dict[str, tuple[str, tuple[Link, ...]]] = {each: (each, ()) for each in ways}
    queue = deque(ways)
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


def _rounded(rate: Figure) -> int:
    """The rate in half powers of two."""
    return round(2 * math.log2(rate.value))
