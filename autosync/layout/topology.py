"""Where replicas are: each one's node, and how nodes hang together, on switches that hang on others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

from autosync.layout.exchange import Processes
from autosync.spec import ClusterSpec, Device


@dataclass(frozen=True)
class Group:
    """Replicas that are near each other, by their numbers: in `parts` that are nearer still, or a single one."""

    members: tuple[int, ...]
    parts: tuple[Group, ...] = ()

    @classmethod
    def of(cls, parts: Sequence[Group]) -> Group:
        """The parts as one group, which a single part is already."""
        if len(parts) == 1:
            return parts[0]
        return cls(tuple(sorted(member for part in parts for member in part.members)), tuple(parts))


@final
@dataclass(frozen=True, eq=False)
class Topology:
    """The `replicas` that all-reduce, devices of a cluster, by their number from 0 on; equal to itself alone."""

    cluster: ClusterSpec
    replicas: tuple[str, ...]

    @classmethod
    def of(cls, cluster: ClusterSpec) -> Topology:
        """All replicas that the cluster has room for, in its order."""
        return cls(cluster, tuple(map(str, cluster.replica_devices)))

    def __len__(self) -> int:
        return len(self.replicas)

    @cached_property
    def nodes(self) -> tuple[str, ...]:
        """The node of each replica."""
        return tuple(Device.parse(each).node for each in self.replicas)

    @cached_property
    def processes(self) -> Processes:
        return Processes.of_cluster(self.cluster)

    @cached_property
    def root(self) -> Group:
        """All replicas, in groups inside of groups: of racks of racks, racks, nodes. Groups are in order of number.

        A group has two parts at least: a switch with one node or rack alone makes none. The switches' tree hangs on its
        middle. Where links are no tree with nodes as its ends, or go one way, nodes are the only groups.
        """
        on_nodes: dict[str, list[int]] = {}
        for number, node in enumerate(self.nodes):
            on_nodes.setdefault(node, []).append(number)
        groups = {node: Group.of([Group((each,)) for each in numbers]) for node, numbers in on_nodes.items()}
        near = _near(self.cluster)
        if near is None:
            return Group.of(list(groups.values()))
        switches = {each: near[each] & set(self.cluster.switches) for each in self.cluster.switches}
        tops = _middle(switches)
        found = [_nested(top, set(tops) - {top}, near, groups) for top in tops]
        return Group.of(sorted((each for each in found if each is not None), key=lambda part: part.members))


def _near(cluster: ClusterSpec) -> Mapping[str, set[str]] | None:
    """The nodes and switches next to each, where they are a tree in which every node is an end; else None."""
    pairs = {(link.source, link.target) for link in cluster.links if link.source != link.target}
    near: dict[str, set[str]] = {each: set() for each in (*cluster.switches, *(node.name for node in cluster.nodes))}
    for source, target in pairs:
        near[source].add(target)
    ends = all(len(near[node.name]) == 1 for node in cluster.nodes)
    both_ways = all((target, source) in pairs for source, target in pairs)
    # All are joined by routes, and what is joined by one link fewer than there are ends of links is a tree.
    return near if cluster.switches and ends and both_ways and len(pairs) == 2 * (len(near) - 1) else None


def _middle(near: Mapping[str, set[str]]) -> list[str]:
    """The middle of a tree, one or two, which are left when its ends are taken away again and again."""
    left = {each: set(others) for each, others in near.items()}
    while len(left) > 2:
        for end in [each for each, others in left.items() if len(others) <= 1]:
            for other in left.pop(end):
                left[other].discard(end)
    return sorted(left)


def _nested(here: str, above: set[str], near: Mapping[str, set[str]], groups: Mapping[str, Group]) -> Group | None:
    """The group of what hangs on `here`, away from `above`; None where no replica does."""
    if here in groups:
        return groups[here]
    below = [_nested(each, {here}, near, groups) for each in near[here] - above]
    parts = [each for each in below if each is not None]
    return Group.of(sorted(parts, key=lambda part: part.members)) if parts else None
