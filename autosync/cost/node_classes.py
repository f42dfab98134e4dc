"""Classes of interchangeable nodes: the loads of a server on one node also give the loads of a server on another."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, final

from autosync.cost.capacity import ResourceColumns
from autosync.spec import Node


@final
@dataclass(frozen=True, eq=False)
class NodeClasses:
    """The classes of interchangeable nodes under `resources`, with `replicas` on the cluster.

    Two nodes are interchangeable if swapping them, with their devices, cores and links, leaves the cluster and its
    routes exactly the same. `canonical_strategy` is more generous, because it compares rounded figures.
    """

    resources: ResourceColumns
    replicas: tuple[str, ...]
    _routes: dict[tuple[str, str], tuple[list[int], float]] = field(default_factory=dict, repr=False)

    def stands_for(self, device: str) -> str:
        """The first device that is interchangeable with `device`."""
        node = self.resources.node_of[device]
        return self._first[node] + device.removeprefix(node)

    @cached_property
    def nodes(self) -> list[list[str]]:
        """The classes of the cluster's nodes, in order."""
        classes: dict[Hashable, list[str]] = {}
        for node in self.resources.cluster.nodes:
            classes.setdefault(self._look(node), []).append(node.name)
        return list(classes.values())

    @cached_property
    def columns(self) -> dict[str, list[int]]:
        """The columns of each node's resources: its links (incoming links first), its cores, its servers."""
        resources = self.resources
        return {
            node.name: [
                *(column for _, column in self._links[node.name]),
                resources.node_column[node.name],
                *(resources.server_column[str(device)] for device in node.cpu_devices),
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
        """The first node of each node's class."""
        return {name: members[0] for members in self.nodes for name in members}

    @cached_property
    def _links(self) -> dict[str, list[tuple[Any, int]]]:
        """(description without the node's name, column) of each node's links. The order matters, because routes depend
        on the order of links."""
        of_nodes: dict[str, list[tuple[Any, int]]] = {node.name: [] for node in self.resources.cluster.nodes}
        for column, link in enumerate(self.resources.cluster.links):
            figures = link.bytes_per_second, link.latency_seconds
            for name, end, leaves in ((link.source, link.target, True), (link.target, link.source, False)):
                if name in of_nodes and (leaves or end != name):
                    of_nodes[name].append(((leaves, "" if end == name else end, *figures), column))
        return {name: sorted(links, key=lambda entry: bool(entry[0][0])) for name, links in of_nodes.items()}

    @cached_property
    def _held(self) -> frozenset[str]:
        return frozenset(self.replicas)

    def _look(self, node: Node) -> Hashable:
        """A key that is equal for nodes of one class only."""
        links = [look for look, _ in self._links[node.name]]
        if any(end in self.resources.node_column for _, end, *_ in links):
            return node.name  # a direct link to another node: swapping this node would change the link's ends
        devices: Sequence[bool] = [str(device) in self._held for device in (*node.cpu_devices, *node.gpu_devices)]
        return node.cores, node.workers, node.gpus, node.shared_cores, tuple(links), tuple(devices)
