"""The topology of replicas: the node of each replica, and the switches and groups that connect nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

from autosync.layout.exchange import Processes
from autosync.spec import ClusterSpec, Device


@dataclass(frozen=True)
class Group:
    """Replicas, by number, that are near each other: a single replica, or several `parts` that are nearer still."""

    members: tuple[int, ...]
    parts: tuple[Group, ...] = ()

    @classmethod
    def of(cls, parts: Sequence[Group]) -> Group:
        """The parts as one group; a single part is returned unchanged."""
        if len(parts) == 1:
            return parts[0]
        return cls(tuple(sorted(member for part in parts for member in part.members)), tuple(parts))


@final
@dataclass(frozen=True, eq=False)
class Topology:
    """The `replicas` that all-reduce: devices of a cluster, numbered from 0. A topology equals only itself."""

    cluster: ClusterSpec
    replicas: tuple[str, ...]

    @classmethod
    def of(cls, cluster: ClusterSpec) -> Topology:
        """All replicas that the cluster has room for, in the cluster's order."""
        return cls(cluster, tuple(map(str, cluster.replica_devices)))

    def __len__(self) -> int:
        return len(self.replicas)

    @cached_property
    def nodes(self) -> tuple[str, ...]:
        """The node of each replica."""
        return tuple(Device.parse(replica).node for replica in self.replicas)

    @cached_property
    def processes(self) -> Processes:
        return Processes.of_cluster(self.cluster)

    @cached_property
    def root(self) -> Group:
        """All replicas in nested groups: racks of racks, racks, nodes. Groups are ordered by their replicas' numbers.

        A group has at least two parts, so a switch with a single node or rack makes no group. The root of the switches'
        tree is its center. Nodes are the only groups if links are one-way or do not form a tree with nodes as leaves.
        """
        on_nodes: dict[str, list[int]] = {}
        for number, node in enumerate(self.nodes):
            on_nodes.setdefault(node, []).append(number)
        groups = {node: Group.of([Group((number,)) for number in numbers]) for node, numbers in on_nodes.items()}
        near = _neighbours(self.cluster)
        if near is None:
            return Group.of(list(groups.values()))
        switches = {switch: near[switch] & set(self.cluster.switches) for switch in self.cluster.switches}
        tops = _center(switches)
        parts = [_group_below(top, set(tops) - {top}, near, groups) for top in tops]
        return Group.of(sorted((part for part in parts if part is not None), key=lambda part: part.members))


def _neighbours(cluster: ClusterSpec) -> Mapping[str, set[str]] | None:
    """The neighbours of each node and switch if they form a tree in which every node is a leaf; else None."""
    pairs = {(link.source, link.target) for link in cluster.links if link.source != link.target}
    near: dict[str, set[str]] = {name: set() for name in (*cluster.switches, *(node.name for node in cluster.nodes))}
    for source, target in pairs:
        near[source].add(target)
    ends = all(len(near[node.name]) == 1 for node in cluster.nodes)
    both_ways = all((target, source) in pairs for source, target in pairs)
    # Routes connect all nodes and switches, and a connected graph with one edge fewer than vertices is a tree.
    return near if cluster.switches and ends and both_ways and len(pairs) == 2 * (len(near) - 1) else None


def _center(near: Mapping[str, set[str]]) -> list[str]:
    """The center of a tree: the one or two vertices left after its leaves are removed again and again."""
    left = {vertex: set(neighbours) for vertex, neighbours in near.items()}
    while len(left) > 2:
        for leaf in [vertex for vertex, neighbours in left.items() if len(neighbours) <= 1]:
            for neighbour in left.pop(leaf):
                left[neighbour].discard(leaf)
    return sorted(left)


def _group_below(here: str, above: set[str], near: Mapping[str, set[str]], groups: Mapping[str, Group]) -> Group | None:
    """The group of the replicas behind `here`, seen from `above`; None if there are none."""
    if here in groups:
        return groups[here]
    below = [_group_below(neighbour, {here}, near, groups) for neighbour in near[here] - above]
    parts = [group for group in below if group is not None]
    return Group.of(sorted(parts, key=lambda part: part.members)) if parts else None
