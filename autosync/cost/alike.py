"""Nodes of a cluster that can change places: what a server on one of them loads says what one on another does."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, final

from autosync.cost.capacity import Resources
from autosync.spec import Node


@final
@dataclass(frozen=True, eq=False)
class Alike:
    """Which nodes are alike under `resources`, with `replicas` on the cluster.

    Two nodes are when the cluster and its routes stay the same to the last figure as they change places with all that
    is theirs: their devices, cores and links. `canonical_strategy` is more generous, since it compares figures rounded.
    """

    resources: Resources
    replicas: tuple[str, ...]
    _routes: dict[tuple[str, str], tuple[list[int], float]] = field(default_factory=dict, repr=False)

    def stands_for(self, device: str) -> str:
        """The first of the devices that are like `device`."""
        node = self.resources.node_of[device]
        return self._first[node] + device.removeprefix(node)

    @cached_property
    def nodes(self) -> list[list[str]]:
        """The cluster's nodes, those together that are alike, in order."""
        found: dict[Hashable, list[str]] = {}
        for node in self.resources.cluster.nodes:
            found.setdefault(self._look(node), []).append(node.name)
        return list(found.values())

    @cached_property
    def own(self) -> dict[str, list[int]]:
        """The columns of each node's resources: its links, those that come in first, its cores, its servers."""
        resources = self.resources
        return {
            node.name: [
                *(column for _, column in self._links[node.name]),
                resources.node_column[node.name],
                *(resources.server_column[str(each)] for each in node.cpu_devices),
            ]
            for node in resources.cluster.nodes
        }

    def route(self, source: str, target: str) -> tuple[list[int], float]:
        """The columns of the links between two nodes, and the latency in seconds."""
        ends = source, target
        if ends not in self._routes:
            links = self.resources.cluster.route(*ends)
            columns = [self.resources.link_column[id(link)] for link in links]
            self._routes[ends] = columns, sum(link.latency_seconds for link in links)
        return self._routes[ends]

    @cached_property
    def _first(self) -> dict[str, str]:
        """The first node that each is like."""
        return {name: members[0] for members in self.nodes for name in members}

    @cached_property
    def _links(self) -> dict[str, list[tuple[Any, int]]]:
        """What each node's links are but for its name, with their columns, in their order, which routes depend on."""
        found: dict[str, list[tuple[Any, int]]] = {node.name: [] for node in self.resources.cluster.nodes}
        for column, link in enumerate(self.resources.cluster.links):
            figures = link.bytes_per_second, link.latency_seconds
            for name, other, leaves in ((link.source, link.target, True), (link.target, link.source, False)):
                if name in found and (leaves or other != name):
                    found[name].append(((leaves, "" if other == name else other, *figures), column))
        return {name: sorted(links, key=lambda each: bool(each[0][0])) for name, links in found.items()}

    @cached_property
    def _held(self) -> frozenset[str]:
        return frozenset(self.replicas)

    def _look(self, node: Node) -> Hashable:
        """What a node has in common with those that it is like, and with no others."""
        links = [look for look, _ in self._links[node.name]]
        if any(other in self.resources.node_column for _, other, *_ in links):
            return node.name  # straight to another node: who changes places with it would have to change ends
        devices: Sequence[bool] = [str(each) in self._held for each in (*node.cpu_devices, *node.gpu_devices)]
        return node.cores, node.workers, node.gpus, node.shared_cores, tuple(links), tuple(devices)
