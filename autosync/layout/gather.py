"""Gathers: what each replica has goes to every other, straight or by relays, as the topology asks.

N replicas have a part each (touched rows, sufficient factors, chosen elements), and all want all N, one by one: nothing
is added up on the way. Straight, every replica sends its own to each other: the link out of a rack of p then carries
p (N - p) parts. By relays, the others of its group have a part from whoever brought it there: a part goes to one
replica of each other group, its *relay* there, which hands it on inside; inside, likewise, to one of each node. So a
link out of a rack of p, with g racks, carries p (g - 1) parts, and one out of a node with p replicas p (n - 1), n being
the nodes that it does so with. Parts that come into a group are dealt to its members in turn, so that in groups of one
size every replica still sends N - 1 parts and gets N - 1, and the processors have as much to do as before.

A relay can only begin when it has a part: there is one more message on the way. So groups of nodes or racks have relays
where that pays, as counted in `_seconds`: all stages, which follow one another, each as long as its busiest link, must
take a tenth less than without (`WORTH`). That is so where the link out of a rack is thinner than those of its nodes
together by some margin, and almost always where several replicas share their node's link. It is not where racks are
joined by links as wide as their nodes' together, nor where one large rack and single nodes meet; and on a switch whose
nodes have one replica each there are no groups. It follows from the cluster and the replicas alone, whatever the parts
weigh: where they come to a few kilobytes a relay is a fraction of a millisecond late, which was left so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import cycle
from typing import NamedTuple, TypeVar, final

from autosync.layout.exchange import Stage, Transfer
from autosync.layout.topology import Group, Topology

WORTH = 0.9
"""What a gather may take with relays at one level more, as a share: the message more on the way must pay."""

Place = TypeVar("Place", bound=Hashable)


class Handing(NamedTuple):
    """The part of replica `origin` goes from replica `source`, which is it or its relay, to replica `target`."""

    origin: int
    source: int
    target: int


class _Held(NamedTuple):
    """By whose part it is: who of some group has it, and after how many stages."""

    by: list[int]
    stages: list[int]


class _Leaves(NamedTuple):
    """All parts go from who has them to each of `targets`, single replicas of one group, unless it has them itself."""

    targets: tuple[int, ...]
    held: _Held


class _Relays(NamedTuple):
    """Parts go to their relays in a group, each in a stage."""

    stages: list[int]
    handings: list[Handing]


@final
@dataclass(frozen=True, eq=False)
class Gather:
    """Who gets whose part from whom: a topology's groups at these `levels`, counted from 1 outside, have relays."""

    topology: Topology
    levels: frozenset[int]

    @cached_property
    def rounds(self) -> tuple[tuple[Handing, ...], ...]:
        """The handings of each stage, in the order of whose part it is."""
        found: dict[int, list[Handing]] = {}
        for step in self._steps:
            if isinstance(step, _Relays):
                for stage, handing in zip(step.stages, step.handings, strict=True):
                    found.setdefault(stage, []).append(handing)
                continue
            for origin, (source, stage) in enumerate(zip(*step.held, strict=True)):
                hands = [Handing(origin, source, target) for target in step.targets if target != source]
                found.setdefault(stage + 1, []).extend(hands)
        return tuple(tuple(sorted(found[stage])) for stage in sorted(found) if found[stage])

    @cached_property
    def relayed(self) -> frozenset[tuple[int, int]]:
        """(origin, relay) of all parts that a relay hands on."""
        return frozenset((each.origin, each.source) for hands in self.rounds[1:] for each in hands)

    def between(self, places: Sequence[Place]) -> tuple[Counter[tuple[Place, Place]], ...]:
        """How many parts go from each place to each other, in each stage; `places` has that of each replica.

        Parts are counted and not listed, of which a thousand replicas have a million.
        """
        found: dict[int, Counter[tuple[Place, Place]]] = {}
        for step in self._steps:
            if isinstance(step, _Relays):
                for stage, (_, source, target) in zip(step.stages, step.handings, strict=True):
                    found.setdefault(stage, Counter())[places[source], places[target]] += 1
                continue
            targets = Counter(places[each] for each in step.targets)
            for (source, stage), parts in Counter(zip(*step.held, strict=True)).items():
                to, here = found.setdefault(stage + 1, Counter()), places[source]
                for place, many in targets.items():
                    to[here, place] += parts * many
                if source in step.targets:
                    to[here, here] -= parts
        return tuple(+found[stage] for stage in sorted(found) if +found[stage])

    @property
    def is_uneven(self) -> bool:
        """Whether some replicas send more than others."""
        sent: Counter[int] = Counter()
        for stage in self.between(range(len(self.topology))):
            for (source, _), parts in stage.items():
                sent[source] += parts
        return len(set(sent.values())) > 1

    @property
    def _steps(self) -> Iterator[_Leaves | _Relays]:
        own = list(range(len(self.topology)))
        return self._inside(self.topology.root, 0, _Held(own, [0] * len(own)))

    def _inside(self, group: Group, level: int, held: _Held) -> Iterator[_Leaves | _Relays]:
        """How all parts get from those of `group` who have them to all of it."""
        parts = list(self._parts(group, level))
        leaves = tuple(part.members[0] for part, _ in parts if not part.parts)
        if leaves:
            yield _Leaves(leaves, held)
        for part, below in parts:
            if not part.parts:
                continue
            there, relays, brought = frozenset(part.members), cycle(part.members), _Relays([], [])
            inside = _Held(list(held.by), list(held.stages))
            for origin, holder in enumerate(held.by):
                if holder not in there:
                    relay = inside.by[origin] = next(relays)
                    inside.stages[origin] += 1
                    brought.stages.append(inside.stages[origin])
                    brought.handings.append(Handing(origin, holder, relay))
            yield brought
            yield from self._inside(part, below, inside)

    def _parts(self, group: Group, level: int) -> Iterator[tuple[Group, int]]:
        """The parts of a group with their levels: in place of one without relays its own parts."""
        for part in group.parts:
            if part.parts and level + 1 not in self.levels:
                yield from self._parts(part, level + 1)
            else:
                yield part, level + 1


@lru_cache(maxsize=16)
def gather_among(topology: Topology) -> Gather:
    """The gather among the replicas of a topology: straight, or by relays where these are worth it."""
    straight = Gather(topology, frozenset())
    gathers = [straight, *(Gather(topology, levels) for levels in _choices(_depth(topology.root)))]
    return min(gathers, key=lambda each: _seconds(each) / WORTH ** len(each.levels)) if gathers[1:] else straight


def gather_stages(topology: Topology, transfer: Transfer) -> tuple[Stage, ...]:
    """The stages of messages of a gather, each message like `transfer` but for its ends."""
    replicas, apart = topology.replicas, topology.processes.apart
    shares = transfer.payload, transfer.index, transfer.touched, transfer.messages, transfer.gradients
    return tuple(
        Stage(
            tuple(
                Transfer(replicas[source], replicas[target], *shares)
                for _, source, target in hands
                if apart(replicas[source], replicas[target])
            )
        )
        for hands in gather_among(topology).rounds
    )


def _depth(group: Group) -> int:
    """Levels of groups inside of this one that have several members."""
    return max((1 + _depth(part) for part in group.parts if part.parts), default=0)


def _choices(depth: int) -> list[frozenset[int]]:
    """Levels whose groups may have relays: those from one to another, few first."""
    starts = ((first, many) for many in range(1, depth + 1) for first in range(1, depth - many + 2))
    return [frozenset(range(first, first + many)) for first, many in starts]


def _seconds(gather: Gather) -> float:
    """How long a part takes, if stages follow one another and each takes as long as its busiest link.

    Rates are taken as the cluster's digest has them: clusters that are one by it have one gather.
    """
    total, topology = 0.0, gather.topology
    for stage in gather.between(topology.nodes):
        busy: dict[int, float] = {}
        for ends, parts in stage.items():
            for link in topology.cluster.route(*ends):
                busy[id(link)] = busy.get(id(link), 0.0) + parts / 2 ** (link.rounded_rate / 2)
        total += max(busy.values())
    return total
