"""The one name of strategies that differ only by exchanging devices that are alike.

Two server devices are alike when exchanging them, with all else of their nodes, leaves the cluster and the replica
set as they are: worker processes of one node, and whole nodes with equal cores, workers, GPUs and links. Rates are
compared as `ClusterSpec.digest` rounds them, in half powers of two; latencies are left out, as there.

Nodes count as alike when exchanging just the two is an automorphism. Such exchanges are transitive, so the nodes fall
into classes, all permutations of a class are automorphisms, and naming devices in order of first use is canonical.
Exchanging whole racks at once is not folded: strategies that differ by it keep two names.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TypeAlias, final

from autosync.spec.cluster import ClusterSpec
from autosync.spec.node import Device, Node
from autosync.spec.strategy import Strategy
from autosync.spec.synchronizer import AllReduce, ParameterServer, Synchronizer

Colour: TypeAlias = tuple[str, bool, tuple[bool, ...]]
_Key: TypeAlias = tuple[str, str, tuple[int | tuple[float, int], ...]]


def canonical_strategy(strategy: Strategy, cluster: ClusterSpec, apart: tuple[frozenset[str], ...] = ()) -> Strategy:
    """The same strategy with devices that are alike, and all-reduce groups, numbered in order of first use.

    Devices are met in the order of variables' names, so that listing the variables in another order changes nothing;
    groups are numbered in the order given. `apart` lists sets of devices: a device in a set is never exchanged for one
    outside it. Devices the cluster does not have keep their names.
    """
    symmetry = _symmetry(cluster, frozenset(strategy.replicas), apart)
    devices = symmetry.renaming(_devices_by_first_use(strategy))
    groups: dict[int, int] = {}
    renamed: dict[Synchronizer, Synchronizer] = {}

    def rename(synchronizer: Synchronizer) -> Synchronizer:
        if synchronizer not in renamed:
            renamed[synchronizer] = _renamed(synchronizer, devices, groups)
        return renamed[synchronizer]

    variables = []
    for each in strategy.variables:
        shards = tuple([rename(shard) for shard in each.shards])
        variables.append(each if shards == each.shards else replace(each, shards=shards))
    return strategy if tuple(variables) == strategy.variables else replace(strategy, variables=tuple(variables))


def _devices_by_first_use(strategy: Strategy) -> Iterable[str]:
    seen: dict[str, None] = {}
    for each in sorted(strategy.variables, key=lambda each: each.variable):
        for shard in each.shards:
            if isinstance(shard, ParameterServer):
                seen.setdefault(shard.device)
    return seen


def _renamed(synchronizer: Synchronizer, devices: dict[str, str], groups: dict[int, int]) -> Synchronizer:
    if isinstance(synchronizer, AllReduce):
        group = groups.setdefault(synchronizer.group, len(groups))
        return synchronizer if group == synchronizer.group else replace(synchronizer, group=group)
    device = devices[synchronizer.device]
    return synchronizer if device == synchronizer.device else replace(synchronizer, device=device)


@final
@dataclass(frozen=True)
class _Symmetry:
    """Classes of nodes and of devices that are alike under one cluster, replica set and `apart`."""

    cluster: ClusterSpec
    replicas: frozenset[str]
    apart: tuple[frozenset[str], ...]

    def renaming(self, devices: Iterable[str]) -> dict[str, str]:
        """New names of `devices`, which are given in order of first use."""
        nodes: dict[str, str] = {}
        used: Counter[int | tuple[str, Colour]] = Counter()
        names: dict[str, str] = {}
        for name in devices:
            if name not in self._home:
                names[name] = name
                continue
            node, colour = self._home[name]
            if node not in nodes:
                index = self._class_of[node]
                nodes[node] = self._classes[index][used[index]]
                used[index] += 1
            names[name] = self._members[nodes[node], colour][used[node, colour]]
            used[node, colour] += 1
        return names

    def _colour(self, device: Device) -> Colour:
        name = str(device)
        return device.kind, name in self.replicas, tuple(name in group for group in self.apart)

    @cached_property
    def _home(self) -> dict[str, tuple[str, Colour]]:
        return {str(device): (device.node, self._colour(device)) for device in self.cluster.server_devices}

    @cached_property
    def _members(self) -> dict[tuple[str, Colour], list[str]]:
        members: dict[tuple[str, Colour], list[str]] = {}
        for name, home in self._home.items():
            members.setdefault(home, []).append(name)
        return members

    @cached_property
    def _links(self) -> Counter[_Key]:
        return Counter((link.source, link.target, link.rounded_rates) for link in self.cluster.links)

    def _look(self, node: Node) -> tuple[object, ...]:
        """What must be equal for two nodes to be alike, but for their links."""
        colours = Counter(self._colour(device) for device in (*node.cpu_devices, *node.gpu_devices))
        return node.machine, node.workers, frozenset(colours.items())

    def _exchangeable(self, first: Node, second: Node) -> bool:
        if self._look(first) != self._look(second):
            return False
        swap = {first.name: second.name, second.name: first.name}
        swapped: Counter[_Key] = Counter()
        for (source, target, rates), count in self._links.items():
            swapped[swap.get(source, source), swap.get(target, target), rates] += count
        return swapped == self._links

    @cached_property
    def _classes(self) -> list[list[str]]:
        classes: list[list[Node]] = []
        for node in self.cluster.nodes:
            for members in classes:
                if self._exchangeable(members[0], node):
                    members.append(node)
                    break
            else:
                classes.append([node])
        return [[node.name for node in members] for members in classes]

    @cached_property
    def _class_of(self) -> dict[str, int]:
        return {name: index for index, members in enumerate(self._classes) for name in members}


@lru_cache(maxsize=256)
def _symmetry(cluster: ClusterSpec, replicas: frozenset[str], apart: tuple[frozenset[str], ...]) -> _Symmetry:
    """The symmetry of a cluster, kept for the clusters met last, since tens of thousands of candidates share one."""
    return _Symmetry(cluster, replicas, apart)
