"""Groups for an all-reduce: the topology's, with slower parts apart, and what has many parts in groups of few."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import islice

from autosync.layout.topology import Group, Topology
from autosync.spec import Link, shard_sizes

SLOWER = 2
"""Half powers of two by which a part's own links are slower than the fastest ones' where it is set apart."""


@dataclass(frozen=True)
class Nesting:
    """How a group of many parts becomes groups in groups.

    So many parts as are `met` stay together; others go into as many groups as the first of `into` that divides them, or
    into two that are about alike. A group's parts are neighbours, or where it is `strided` as far apart as can be.
    """

    met: Collection[int]
    into: tuple[int, ...]
    strided: bool = False

    def of(self, group: Group) -> Group:
        """The group with none in it that has too many parts."""
        return self._joined([self.of(part) for part in group.parts]) if group.parts else group

    def _joined(self, parts: Sequence[Group]) -> Group:
        count = len(parts)
        if count == 1 or count in self.met:
            return Group.of(parts)
        groups = next((each for each in self.into if count % each == 0), 2)
        left = iter(parts)
        near = (list(islice(left, size)) for size in shard_sizes(count, groups))
        found = (parts[first::groups] for first in range(groups)) if self.strided else near
        return Group.of([self._joined(each) for each in found])


HALVES = Nesting((2, 3, 5), (2, 3, 5))
FAR_HALVES = Nesting((2, 3, 5), (2, 3, 5), strided=True)
LEVELS = Nesting((2, 3, 4, 5, 7), (4, 2, 3, 5, 7))


def near_and_fast(topology: Topology) -> Group:
    """The topology's root, in which parts of a group come last if their own links are about half as fast as others'.

    The others exchange among themselves before, so that a slow link carries little more than a bucket each way. Rates
    are rounded as a cluster's digest rounds them: clusters of one digest have one such group.
    """
    return _fast_first(topology.root, topology)


def is_regular(group: Group) -> bool:
    """Whether the parts of each group are alike, so that all its members send alike."""
    return len({_shape(part) for part in group.parts}) <= 1 and all(map(is_regular, group.parts))


def _shape(group: Group) -> tuple[object, ...]:
    return tuple(map(_shape, group.parts))


def _fast_first(group: Group, topology: Topology) -> Group:
    parts = tuple(_fast_first(part, topology) for part in group.parts)
    slow = _slow(parts, topology)
    if not slow:
        return Group(group.members, parts)
    fast = [part for place, part in enumerate(parts) if place not in slow]
    return Group(group.members, (Group.of(fast), *(parts[place] for place in slow)))


def _slow(parts: Sequence[Group], topology: Topology) -> list[int]:
    """The places of the parts to be set apart, where at least two are faster."""
    if len(parts) < 3:
        return []
    own = [[link.rounded_rate for link in _own_links(place, parts, topology)] for place in range(len(parts))]
    if not all(own):
        return []
    rates = list(map(min, own))
    slow = [place for place, rate in enumerate(rates) if rate <= max(rates) - SLOWER]
    return slow if len(parts) - len(slow) > 1 else []


def _own_links(place: int, parts: Sequence[Group], topology: Topology) -> set[Link]:
    """The links, either way, that a part's routes to two others have in common."""
    own, nodes, route = parts[place], topology.nodes, topology.cluster.route
    two = own.parts[:2] or (own, own)
    here, there, one, other = (nodes[each.members[0]] for each in (*two, parts[place - 1], parts[place - 2]))
    up, down = set(route(here, one)) & set(route(there, other)), set(route(one, here)) & set(route(other, there))
    return up | down
