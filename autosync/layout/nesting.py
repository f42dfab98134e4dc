"""Groups for an all-reduce: the topology's groups, with slow parts set apart and large groups split into small ones."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import islice

from autosync.layout.topology import Group, Topology
from autosync.spec import Link, shard_sizes

SLOWER = 2
"""A part is set apart if its links are slower than the fastest part's by at least this many half powers of two."""


@dataclass(frozen=True)
class Nesting:
    """A rule that splits a group of many parts into nested groups."""

    met: Collection[int]
    """The numbers of parts that stay together in one group."""

    into: tuple[int, ...]
    """The numbers of groups to try. The first divisor of the number of parts is used; if there is none, two groups of
    about equal size."""

    strided: bool = False
    """Whether the parts of a group are as far apart as possible; otherwise they are neighbours."""

    def of(self, group: Group) -> Group:
        """The group, in which no group has too many parts."""
        return self._join([self.of(part) for part in group.parts]) if group.parts else group

    def _join(self, parts: Sequence[Group]) -> Group:
        count = len(parts)
        if count == 1 or count in self.met:
            return Group.of(parts)
        groups = next((divisor for divisor in self.into if count % divisor == 0), 2)
        left = iter(parts)
        near = (list(islice(left, size)) for size in shard_sizes(count, groups))
        split = (parts[first::groups] for first in range(groups)) if self.strided else near
        return Group.of([self._join(subset) for subset in split])


HALVES = Nesting((2, 3, 5), (2, 3, 5))
FAR_HALVES = Nesting((2, 3, 5), (2, 3, 5), strided=True)
LEVELS = Nesting((2, 3, 4, 5, 7), (4, 2, 3, 5, 7))


def near_and_fast(topology: Topology) -> Group:
    """The topology's root, in which parts of a group come last if their links are about half as fast as other parts'.

    The fast parts exchange among themselves first, so that a slow link carries little more than one bucket each way.
    Rates are rounded as in a cluster's digest, so that clusters with one digest have one such group.
    """
    return _fast_first(topology.root, topology)


def is_regular(group: Group) -> bool:
    """Whether all parts of each group have the same shape, so that all members send equal amounts."""
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
    """The places of the parts to set apart; an empty list unless at least two parts are faster."""
    if len(parts) < 3:
        return []
    rates_of_parts = [
        [link.coarse_rate for link in _links_of_part(place, parts, topology)] for place in range(len(parts))
    ]
    if not all(rates_of_parts):
        return []
    rates = list(map(min, rates_of_parts))
    slow = [place for place, rate in enumerate(rates) if rate <= max(rates) - SLOWER]
    return slow if len(parts) - len(slow) > 1 else []


def _links_of_part(place: int, parts: Sequence[Group], topology: Topology) -> set[Link]:
    """The links, in both directions, that a part's routes to two other parts have in common."""
    part, nodes, route = parts[place], topology.nodes, topology.cluster.route
    inside = part.parts[:2] or (part, part)
    groups = (*inside, parts[place - 1], parts[place - 2])
    here, there, away, beyond = (nodes[group.members[0]] for group in groups)
    up, down = set(route(here, away)) & set(route(there, beyond)), set(route(away, here)) & set(route(beyond, there))
    return up | down
