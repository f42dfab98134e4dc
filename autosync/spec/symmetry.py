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
from autosync.spec.synchronizer import AllReduce, Synchronizer

Colour: TypeAlias = tuple[str, bool, tuple[int, ...]]
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
    variables = []
    for each in strategy.variables:
        for shard in each.distinct:
            if shard not in renamed:
                renamed[shard] = _renamed(shard, devices, groups)
        variables.append(each.with_others(renamed))
    return strategy if tuple(variables) == strategy.variables else replace(strategy, variables=tuple(variables))


def _devices_by_first_use(strategy: Strategy) -> Iterable[str]:
    seen: dict[str, None] = {}
    for each in sorted((each for each in strategy.variables if each.servers), key=lambda each: each.variable):
        for shard in each.servers:
            seen.setdefault(shard.device)
    return seen


def _renamed(synchronizer: Synchronizer, devices: dict[str, str], groups: dict[int, int]) -> Synchronizer:
    if isinstance(synchronizer, AllReduce):
        group = groups.setdefault(synchronizer.group, len(groups))
        if group == synchronizer.group:
            return synchronizer
        return AllReduce(group, synchronizer.algorithm, synchronizer.compressor)
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
        return device.kind, name in self.replicas, self._within.get(name, ())

    @cached_property
    def _within(self) -> dict[str, tuple[int, ...]]:
        """The numbers of the sets `apart` that each device is in; of one in none, nothing."""
        found: dict[str, tuple[int, ...]] = {}
        for number, group in enumerate(self.apart):
            for name in group:
                found[name] = (*found.get(name, ()), number)
        return found

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
    def _links(self) -> dict[str, list[_Key]]:
        """The links of each node or switch."""
        found: dict[str, list[_Key]] = {}
        for link in self.cluster.links:
            for end in {link.source, link.target}:
                found.setdefault(end, []).append((link.source, link.target, link.rounded_rates))
        return found

    def _look(self, node: Node) -> tuple[object, ...]:
        """What must be equal for two nodes to be alike, but for their links."""
        colours = Counter(self._colour(device) for device in (*node.cpu_devices, *node.gpu_devices))
        return node.machine, node.workers, frozenset(colours.items())

    def _exchangeable(self, first: Node, second: Node) -> bool:
        """Whether two nodes that look alike can change places."""
        swap = {first.name: second.name, second.name: first.name}
        ours = self._links.get(first.name, [])
        others = [each for each in self._links.get(second.name, []) if first.name not in each[:2]]
        swapped = Counter((swap.get(source, source), swap.get(target, target), rates) for source, target, rates in ours)
        swapped.update((swap.get(source, source), swap.get(target, target), rates) for source, target, rates in others)
        return swapped == Counter([*ours, *others])

    @cached_property
    def _classes(self) -> list[list[str]]:
        classes: list[list[Node]] = []
        alike: dict[object, list[list[Node]]] = {}
        for node in self.cluster.nodes:
            of_look = alike.setdefault(self._look(node), [])
            for members in of_look:
                if self._exchangeable(members[0], node):
                    members.append(node)
                    break
            else:
                of_look.append([node])
                classes.append(of_look[-1])
        return [[node.name for node in members] for members in classes]

    @cached_property
    def _class_of(self) -> dict[str, int]:
        return {name: index for index, members in enumerate(self._classes) for name in members}


@lru_cache(maxsize=256)
def _symmetry(cluster: ClusterSpec, replicas: frozenset[str], apart: tuple[frozenset[str], ...]) -> _Symmetry:
    """The symmetry of a cluster, kept for the clusters met last, since tens of thousands of candidates share one."""
    return _Symmetry(cluster, replicas, apart)
