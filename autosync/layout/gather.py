"""Gathers: what each replica has goes to every other, straight or by relays, as the topology asks.

N replicas have a part each (touched rows, sufficient factors, chosen elements), and all want all N, one by one: nothing
is added up on the way. Straight, every replica sends its own to each other: the link out of a rack of p then carries
p (N - p) parts. By relays, the others of its group have a part from whoever brought it there: a part goes to one
replica of each other group, its *relay* there, which hands it on inside; inside, likewise, to one of each node. So a
link out of a rack of p, with g racks, carries p (g - 1) parts, and one out of a node with p replicas p (n - 1), n being
the nodes that it does so with. Parts that come into a group are dealt to its members in turn, so that in groups of one
size every replica still sends N - 1 parts and gets N - 1, and the processors have as much to do as before.

A relay can only begin when it has a part: there is one more message on the way. So groups of nodes or racks have relays
where that pays, as counted in `_seconds`: all stages, which follow one another, each as long as its busiest link, must take
a tenth less than without (`WORTH`). That is so where the link out of a rack is thinner than those of its
nodes together by some margin, and almost always where several replicas share their node's link. It is not where racks
are joined by links as wide as their nodes', nor where one large rack and single nodes meet; and on a switch whose nodes
have one replica each there are no groups. It follows from the cluster and the replicas alone, whatever the parts weigh.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple, TypeAlias, final

import numpy as np
import numpy.typing as npt

from autosync.layout.exchange import Stage, Transfer
from autosync.layout.topology import Group, Topology

IntArray: TypeAlias = npt.NDArray[np.intp]

WORTH = 0.9
"""What a gather may take with relays at one level more, as a share: the message more on the way must pay."""


class Handing(NamedTuple):
    """The part of replica `origin` goes from replica `source`, which is it or its relay, to replica `target`."""

    origin: int
    source: int
    target: int


@final
@dataclass(frozen=True, eq=False)
class Gather:
    """Who gets whose part from whom, among N replicas, each numbered.

    `sources` int (N, N) has, for the part of the first replica, from whom the second gets it; `stages` int (N, N) in
    which stage, from 1 on. Both are about the replica itself where the two are the same, and the stage is 0.
    """

    sources: IntArray
    stages: IntArray

    @cached_property
    def rounds(self) -> tuple[tuple[Handing, ...], ...]:
        """The handings of each stage, in the order of whose part it is, and then of who gets it."""
        return tuple(tuple(map(Handing, *(each.tolist() for each in ends))) for ends in self.ends)

    @cached_property
    def ends(self) -> tuple[tuple[IntArray, IntArray, IntArray], ...]:
        """Of each stage the handings' origins, sources and targets, int (handings,)."""
        stages = range(1, int(self.stages.max(initial=0)) + 1)
        found = (np.nonzero(self.stages == stage) for stage in stages)
        return tuple((origins, self.sources[origins, targets], targets) for origins, targets in found)

    @cached_property
    def relayed(self) -> frozenset[tuple[int, int]]:
        """(origin, relay) of all parts that a relay hands on."""
        return frozenset((each.origin, each.source) for hands in self.rounds[1:] for each in hands)

    @property
    def is_uneven(self) -> bool:
        """Whether some replicas send more than others."""
        sent = np.bincount(self.sources.ravel(), minlength=len(self.sources))
        return bool((sent != len(self.sources)).any())


@lru_cache(maxsize=16)
def gather_among(topology: Topology) -> Gather:
    """The gather among the replicas of a topology: straight, or by relays where these are worth it."""
    straight, choices = _by_relays(topology, frozenset()), _choices(_depth(topology.root))
    if not choices:
        return straight
    gathers = [(straight, 0), *((_by_relays(topology, levels), len(levels)) for levels in choices)]
    return min(gathers, key=lambda each: _seconds(each[0], topology) / WORTH ** each[1])[0]


def gather_stages(topology: Topology, transfer: Transfer) -> tuple[Stage, ...]:
    """The stages of messages of a gather, each message like `transfer` but for its ends."""
    replicas, apart = topology.replicas, topology.processes.apart
    return tuple(
        Stage(
            tuple(
                Transfer(replicas[source], replicas[target], *_shares(transfer))
                for _, source, target in hands
                if apart(replicas[source], replicas[target])
            )
        )
        for hands in gather_among(topology).rounds
    )


def _shares(transfer: Transfer) -> tuple[float, ...]:
    return transfer.payload, transfer.index, transfer.touched, transfer.messages, transfer.gradients


def _depth(group: Group) -> int:
    """Levels of groups inside of this one that have several members."""
    return max((1 + _depth(part) for part in group.parts if part.parts), default=0)


def _choices(depth: int) -> list[frozenset[int]]:
    """Levels whose groups may have relays, counted from 1, the outermost: those from one to another, few first."""
    starts = ((first, many) for many in range(1, depth + 1) for first in range(1, depth - many + 2))
    return [frozenset(range(first, first + many)) for first, many in starts]


def _by_relays(topology: Topology, levels: frozenset[int]) -> Gather:
    """The gather in which the groups of these levels have relays."""
    count = len(topology)
    sources = np.repeat(np.arange(count)[:, None], count, axis=1)
    stages = np.zeros((count, count), dtype=np.intp)
    _hand_on(topology.root, 0, levels, np.arange(count), sources, stages)
    return Gather(sources, stages)


def _hand_on(
    group: Group, level: int, levels: frozenset[int], holders: IntArray, sources: IntArray, stages: IntArray
) -> None:
    """Note in `sources` and `stages` how each part gets from the one of `group` who has it, `holders` (N,), to all."""
    for part, below in _parts(group, level, levels):
        members = np.array(part.members)
        absent = np.flatnonzero(~np.isin(holders, members))
        relays = members[np.arange(len(absent)) % len(members)]
        sources[absent, relays] = holders[absent]
        stages[absent, relays] = stages[absent, holders[absent]] + 1
        if part.parts:
            inside = holders.copy()
            inside[absent] = relays
            _hand_on(part, below, levels, inside, sources, stages)


def _parts(group: Group, level: int, levels: frozenset[int]) -> Iterator[tuple[Group, int]]:
    """The parts of a group with their levels: in place of one without relays its own parts."""
    for part in group.parts:
        if part.parts and level + 1 not in levels:
            yield from _parts(part, level + 1, levels)
        else:
            yield part, level + 1


def _seconds(gather: Gather, topology: Topology) -> float:
    """How long a part takes, if stages follow one another and each takes as long as its busiest link.

    Rates are taken as the cluster's digest has them: clusters that are one by it have one gather.
    """
    names, node = np.unique(topology.nodes, return_inverse=True)
    count = len(names)
    total = 0.0
    for _, sources, targets in gather.ends:
        pairs = node[sources] * count + node[targets]
        busy: dict[int, float] = {}
        for pair, parts in enumerate(np.bincount(pairs).tolist()):
            for link in topology.cluster.route(str(names[pair // count]), str(names[pair % count])) if parts else ():
                busy[id(link)] = busy.get(id(link), 0.0) + parts / 2 ** (link.rounded_rates[0] / 2)
        total += max(busy.values(), default=0.0)
    return total
