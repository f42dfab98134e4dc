"""The cluster noun: nodes with their devices, joined by directed links, perhaps through switches."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from autosync.errors import SpecError
from autosync.spec.codec import digest
from autosync.spec.fields import every, first_repeated, known_fields, optional, required
from autosync.spec.quoting import listed, quoted

__all__ = ["MOST_DEVICES", "MOST_NODES", "SOURCES", "ClusterSpec", "Device", "Figure", "Link", "Node", "SharedCores"]

SOURCES = ("measured", "stated", "assumed")

MOST_NODES, MOST_DEVICES = 512, 1280
"""The most nodes and devices of a cluster. 1024 workers on 512 nodes took 7 s and a gigabyte to explain, both of
which grow with the square."""

MOST_LINKS, MOST_CROSSED = 16_384, 16
"""The most links of a cluster, and the most that a route crosses."""

LONGEST_NAME = 255

LEAST_CORES, MOST_CORES = 1e-3, 1e6
"""The fewest and the most cores of a node; an emulated one has a quota of them, which is written in microseconds."""

LEAST_FIGURE, MOST_FIGURE = 1e-12, 1e12
"""The least and the greatest figure: beyond, no machine is meant, and times overflow."""


@dataclass(frozen=True)
class Figure:
    """A positive number that says where it comes from: measured here, stated by a person, or assumed."""

    value: float
    source: str

    def __post_init__(self) -> None:
        if self.source not in SOURCES:
            raise SpecError(f"A figure is {', '.join(SOURCES)}; {quoted(self.source)} is none of them.")
        if not (math.isfinite(self.value) and self.value > 0):
            raise SpecError(f"A figure must be a positive number, not {quoted(self.value)}.")
        if not LEAST_FIGURE <= self.value <= MOST_FIGURE:
            raise SpecError(f"A figure is from {LEAST_FIGURE:g} to {MOST_FIGURE:g}, not {self.value:g}.")

    def to_json(self) -> dict[str, Any]:
        return {"value": float(self.value), "source": self.source}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Figure:
        known_fields(document, ("value", "source"), "A figure")
        return cls(required(document, "value", float, "A figure"), required(document, "source", str, "A figure"))


@dataclass(frozen=True, order=True)
class Device:
    """A processor that can hold variables or a replica. On a node, `cpu:k` is its k-th worker process."""

    node: str
    kind: str
    index: int

    def __str__(self) -> str:
        return f"{self.node}/{self.kind}:{self.index}"

    @classmethod
    def parse(cls, text: str) -> Device:
        """The device named `text`, such as `node0/cpu:1`. Raises `SpecError`."""
        node, slash, rest = text.rpartition("/")
        kind, colon, index = rest.partition(":")
        if not (node and slash and colon and kind in ("cpu", "gpu") and index.isdecimal() and len(index) < 10):
            raise SpecError(f"A device is named like 'node0/cpu:0' or 'node0/gpu:3', not {quoted(text)}.")
        return cls(node, kind, int(index))


@dataclass(frozen=True)
class SharedCores:
    """The processors of one real machine, `count` of them, that nodes share which only play machines."""

    machine: str
    count: float

    def __post_init__(self) -> None:
        if not self.machine or not (math.isfinite(self.count) and self.count > 0):
            raise SpecError(
                f"Nodes share a positive number of cores of a machine with a name, not {quoted(self.count)} of "
                f"{quoted(self.machine)}."
            )

    def to_json(self) -> dict[str, Any]:
        return {"machine": self.machine, "count": float(self.count)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> SharedCores:
        what = "Shared cores"
        known_fields(document, ("machine", "count"), what)
        return cls(required(document, "machine", str, what), required(document, "count", float, what))


@dataclass(frozen=True)
class Node:
    """A machine: `workers` worker processes (one, or several on a CPU machine that plays a cluster) and its GPUs.

    `shared_cores` are set where other nodes use the same processors: then all of them together have no more than those.

    Two figures are known once probed: `copy_gbit_per_s`, at which a worker copies arrays in memory, and `message_us`,
    what one more message between two processes takes when many are under way.
    """

    name: str
    address: str
    cores: float
    workers: int = 1
    gpus: int = 0
    copy_gbit_per_s: Figure | None = None
    message_us: Figure | None = None
    shared_cores: SharedCores | None = None

    def __post_init__(self) -> None:
        if self.workers < 1 or self.gpus < 0 or not 0 < self.cores < math.inf:
            raise SpecError(f"Node {quoted(self.name)} needs a worker and a positive number of cores.")
        if not LEAST_CORES <= self.cores <= MOST_CORES:
            raise SpecError(
                f"Node {quoted(self.name)} has {LEAST_CORES:g} to {MOST_CORES:g} cores, not {self.cores:g}."
            )
        if max(self.workers, self.gpus) > MOST_DEVICES:
            raise SpecError(
                f"Node {quoted(self.name)} has at most {MOST_DEVICES} workers and as many GPUs, not "
                f"{quoted(self.workers)} and {quoted(self.gpus)}."
            )
        if self.gpus and self.workers > 1:
            raise SpecError(
                f"Node {quoted(self.name)} has GPUs, so one worker process drives them all; workers must be 1."
            )
        if not self.name or "/" in self.name:
            raise SpecError(f"A node's name must not be empty or hold a slash, but is {quoted(self.name)}.")
        if max(len(self.name), len(self.address)) > LONGEST_NAME:
            raise SpecError(
                f"A node's name and address have at most {LONGEST_NAME} characters, but are {quoted(self.name)} and "
                f"{quoted(self.address)}."
            )

    @property
    def cpu_devices(self) -> tuple[Device, ...]:
        return tuple(Device(self.name, "cpu", index) for index in range(self.workers))

    @property
    def gpu_devices(self) -> tuple[Device, ...]:
        return tuple(Device(self.name, "gpu", index) for index in range(self.gpus))

    def to_json(self) -> dict[str, Any]:
        document = {
            "name": self.name,
            "address": self.address,
            "cores": float(self.cores),
            "workers": self.workers,
            "gpus": self.gpus,
        }
        known = {
            "copy_gbit_per_s": self.copy_gbit_per_s,
            "message_us": self.message_us,
            "shared_cores": self.shared_cores,
        }
        return document | {field: each.to_json() for field, each in known.items() if each}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Node:
        what = "A node"
        later = ("copy_gbit_per_s", "message_us", "shared_cores")
        known_fields(document, ("name", "address", "cores", "workers", "gpus", *later), what)
        copy, message, shared = (optional(document, field, dict, what) for field in later)
        return cls(
            name=required(document, "name", str, what),
            address=required(document, "address", str, what),
            cores=required(document, "cores", float, what),
            workers=required(document, "workers", int, what),
            gpus=required(document, "gpus", int, what),
            copy_gbit_per_s=None if copy is None else Figure.from_json(copy),
            message_us=None if message is None else Figure.from_json(message),
            shared_cores=None if shared is None else SharedCores.from_json(shared),
        )


@dataclass(frozen=True)
class Link:
    """One direction of a connection between two nodes or switches; from a node to itself it is the loopback.

    `latency_us` is the time of an empty message (alpha), 1/`gbit_per_s` the time a bit (beta).
    """

    source: str
    target: str
    gbit_per_s: Figure
    latency_us: Figure

    @property
    def bytes_per_second(self) -> float:
        return self.gbit_per_s.value * 1e9 / 8

    @property
    def latency_seconds(self) -> float:
        return self.latency_us.value * 1e-6

    def to_json(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "target": self.target,
            "gbit_per_s": self.gbit_per_s.to_json(),
            "latency_us": self.latency_us.to_json(),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Link:
        what = "A link"
        known_fields(document, ("source", "target", "gbit_per_s", "latency_us"), what)
        return cls(
            source=required(document, "source", str, what),
            target=required(document, "target", str, what),
            gbit_per_s=Figure.from_json(required(document, "gbit_per_s", dict, what)),
            latency_us=Figure.from_json(required(document, "latency_us", dict, what)),
        )


@dataclass(frozen=True)
class ClusterSpec:
    """Nodes, switches and the directed links between them. Every pair of nodes must be joined by a route."""

    nodes: tuple[Node, ...]
    links: tuple[Link, ...]
    switches: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.nodes:
            raise SpecError("A cluster needs at least one node; none was given.")
        self._check_size()
        names = [node.name for node in self.nodes] + list(self.switches)
        if first_repeated(names) is not None:
            raise SpecError(f"Nodes and switches need different names; given: {listed(names)}.")
        if any(not name or len(name) > LONGEST_NAME for name in self.switches):
            raise SpecError(f"A switch's name has 1 to {LONGEST_NAME} characters; given: {listed(self.switches)}.")
        known = set(names)
        for link in self.links:
            for end in (link.source, link.target):
                if end not in known:
                    raise SpecError(
                        f"A link ends at {quoted(end)}, which is no node or switch. Known: {listed(names)}."
                    )
        for source in self.nodes:
            for target in self.nodes:
                self.route(source.name, target.name)

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
        probing the same cluster twice gives the same digest (but for a rate at a rounding edge).
        """
        document = self.to_json()
        for node in document["nodes"]:
            for field in ("address", "copy_gbit_per_s", "message_us"):
                node.pop(field, None)
        document["links"] = sorted(
            [link.source, link.target, round(2 * math.log2(link.gbit_per_s.value))] for link in self.links
        )
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
        try:
            return self._routes[source, target]
        except KeyError:
            raise SpecError(
                f"No route leads from {quoted(source)} to {quoted(target)}; add the missing links. "
                f"A route crosses at most {MOST_CROSSED}."
            ) from None

    @cached_property
    def _routes(self) -> dict[tuple[str, str], tuple[Link, ...]]:
        leaving: dict[str, list[Link]] = {}
        routes: dict[tuple[str, str], tuple[Link, ...]] = {}
        for link in self.links:
            if link.source == link.target:
                routes[link.source, link.target] = (link,)
            else:
                leaving.setdefault(link.source, []).append(link)
        names = {node.name for node in self.nodes}
        for start in names:
            paths: dict[str, tuple[Link, ...]] = {start: ()}
            queue = deque([start])
            while queue:
                here = queue.popleft()
                if (here != start and here in names) or len(paths[here]) == MOST_CROSSED:
                    continue  # traffic passes through switches, never through another node
                for link in leaving.get(here, ()):
                    if link.target not in paths:
                        paths[link.target] = (*paths[here], link)
                        queue.append(link.target)
            routes |= {(start, end): path for end, path in paths.items() if end in names and end != start}
        return routes

    def to_json(self) -> dict[str, Any]:
        return {
            "nodes": [node.to_json() for node in self.nodes],
            "switches": list(self.switches),
            "links": [link.to_json() for link in self.links],
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> ClusterSpec:
        what = "A cluster"
        known_fields(document, ("nodes", "switches", "links"), what)
        return cls(
            nodes=tuple(Node.from_json(each) for each in required(document, "nodes", list, what)),
            links=tuple(Link.from_json(each) for each in required(document, "links", list, what)),
            switches=every(document, "switches", str, what),
        )
