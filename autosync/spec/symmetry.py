"""Canonical forms of strategies that differ only by exchanging devices that are alike.

Two server devices are alike if exchanging them (with the rest of their nodes) leaves the cluster and the replica set
unchanged: worker processes of one node, and whole nodes with equal cores, workers, GPUs and links. Rates are compared
as `ClusterSpec.digest` rounds them, in half powers of two; latencies are ignored, as in the digest.

Two nodes are alike if exchanging only these two is an automorphism. Such exchanges are transitive, so the nodes fall
into classes, all permutations of a class are automorphisms, and naming devices in order of first use is canonical.
Exchanges of whole racks are not canonicalized: strategies that differ by one keep different forms.
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

    Devices are visited in the order of variables' names, so that the order of `strategy.variables` has no effect.
    Groups are numbered in the order of `strategy.variables`. `apart` lists sets of devices: a device in a set is never
    exchanged for a device outside the set. Devices that the cluster does not have keep their names.
    """
    symmetry = _symmetry(cluster, frozenset(strategy.replicas), apart)
    devices = symmetry.renaming(_devices_by_first_use(strategy))
    groups: dict[int, int] = {}
    renamed: dict[Synchronizer, Synchronizer] = {}
    variables = []
    for decision in strategy.variables:
        for shard in decision.distinct:
            if shard not in renamed:
                renamed[shard] = _rename(shard, devices, groups)
        variables.append(decision.replace_synchronizers(renamed))
    return strategy if tuple(variables) == strategy.variables else replace(strategy, variables=tuple(variables))


def _devices_by_first_use(strategy: Strategy) -> Iterable[str]:
    seen: dict[str, None] = {}
    served = (decision for decision in strategy.variables if decision.servers)
    for decision in sorted(served, key=lambda decision: decision.variable):
        for shard in decision.servers:
            seen.setdefault(shard.device)
    return seen


def _rename(synchronizer: Synchronizer, devices: dict[str, str], groups: dict[int, int]) -> Synchronizer:
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
        """New names of `devices`; `devices` are in order of first use."""
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
        """The numbers of the sets of `apart` that contain each device; devices in no set are missing."""
        numbers: dict[str, tuple[int, ...]] = {}
        for number, group in enumerate(self.apart):
            for name in group:
                numbers[name] = (*numbers.get(name, ()), number)
        return numbers

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
        keys: dict[str, list[_Key]] = {}
        for link in self.cluster.links:
            for end in {link.source, link.target}:
                keys.setdefault(end, []).append((link.source, link.target, link.coarse_rates))
        return keys

    def _look(self, node: Node) -> tuple[object, ...]:
        """All properties, except links, that must be equal for two nodes to be alike."""
        colours = Counter(self._colour(device) for device in (*node.cpu_devices, *node.gpu_devices))
        return node.machine, node.workers, frozenset(colours.items())

    def _exchangeable(self, first: Node, second: Node) -> bool:
        """Whether exchanging two nodes with equal looks leaves their links unchanged."""
        swap = {first.name: second.name, second.name: first.name}
        links = list(self._links.get(first.name, []))
        links += [key for key in self._links.get(second.name, []) if first.name not in key[:2]]
        swapped = Counter((swap.get(start, start), swap.get(end, end), rates) for start, end, rates in links)
        return swapped == Counter(links)

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
    """The symmetry of a cluster, cached because tens of thousands of candidates share it."""
    return _Symmetry(cluster, replicas, apart)
