"""All-gathers: every replica's part goes to every other replica, directly or by relays, depending on the topology.

Each of N replicas has a part (touched rows, sufficient factors, chosen elements), and every replica needs all N parts
separately, so parts are not added on the way. In a direct gather every replica sends its part to every other replica,
and the link out of a rack of p replicas carries p (N - p) parts. With relays, each part crosses once into every other
group, to one replica (the *relay*), which forwards the part inside the group. Inside a rack, likewise, each part goes
to one replica of each node. So with g racks, a link out of a rack of p carries p (g - 1) parts, and a link out of a
node with p replicas carries p (n - 1), where n is the number of nodes that exchange parts in this way. Parts that enter
a group are dealt to its members in turn. If all groups have one size, every replica still sends and receives N - 1
parts, and processors have as much work as before.

A relay can begin only when the part has arrived, which adds one message to the path. So groups of nodes or racks have
relays only if they pay, as computed by `_seconds`: the stages follow one another, each lasts as long as its busiest
link, and together they must take a tenth less than without relays (`WORTH`). Relays pay if the link out of a rack is
thinner, by some margin, than the links of its nodes together, and almost always if several replicas share their node's
link. They do not pay if racks are joined by links as wide as their nodes' links together, nor if one large rack meets
single nodes. On a switch whose nodes have one replica each there are no groups. The choice follows from the cluster and
the replicas alone, not from the parts' sizes. For parts of a few kilobytes a relay costs a fraction of a millisecond,
which is accepted.
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
"""The share of its time that a gather may take with relays at one more level. Each level adds a message to the path."""

Location = TypeVar("Location", bound=Hashable)


class Handing(NamedTuple):
    """The part of replica `origin` goes from replica `source` (`origin` or its relay) to replica `target`."""

    origin: int
    source: int
    target: int


class _Held(NamedTuple):
    """The holders of all parts in a group. Index k of both lists is the part of replica k."""

    by: list[int]
    """The replica that has the part."""

    stages: list[int]
    """The number of stages after which that replica has the part."""


class _Leaves(NamedTuple):
    """All parts go from their holders to each of `targets`, single replicas of one group, except parts it holds."""

    targets: tuple[int, ...]
    held: _Held


class _Relays(NamedTuple):
    """Parts go to their relays in a group: `handings[k]` in stage `stages[k]`."""

    stages: list[int]
    handings: list[Handing]


@final
@dataclass(frozen=True, eq=False)
class Gather:
    """The sender and receiver of every part. Groups at these `levels` have relays; the outermost groups are level 1."""

    topology: Topology
    levels: frozenset[int]

    @cached_property
    def rounds(self) -> tuple[tuple[Handing, ...], ...]:
        """The handings of each stage, ordered by the origin of the part."""
        by_stage: dict[int, list[Handing]] = {}
        for step in self._steps:
            if isinstance(step, _Relays):
                for stage, handing in zip(step.stages, step.handings, strict=True):
                    by_stage.setdefault(stage, []).append(handing)
                continue
            for origin, (source, stage) in enumerate(zip(*step.held, strict=True)):
                hands = [Handing(origin, source, target) for target in step.targets if target != source]
                by_stage.setdefault(stage + 1, []).extend(hands)
        return tuple(tuple(sorted(by_stage[stage])) for stage in sorted(by_stage) if by_stage[stage])

    @cached_property
    def relays(self) -> frozenset[tuple[int, int]]:
        """(origin, relay) of all parts that a relay forwards."""
        return frozenset((handing.origin, handing.source) for hands in self.rounds[1:] for handing in hands)

    def part_counts(self, places: Sequence[Location]) -> tuple[Counter[tuple[Location, Location]], ...]:
        """The number of parts between each pair of places, stage by stage; `places[k]` is the place of replica k.

        Parts are counted rather than listed, because a thousand replicas send a million parts.
        """
        by_stage: dict[int, Counter[tuple[Location, Location]]] = {}
        for step in self._steps:
            if isinstance(step, _Relays):
                for stage, (_, source, target) in zip(step.stages, step.handings, strict=True):
                    by_stage.setdefault(stage, Counter())[places[source], places[target]] += 1
                continue
            targets = Counter(places[target] for target in step.targets)
            for (source, stage), parts in Counter(zip(*step.held, strict=True)).items():
                counts, here = by_stage.setdefault(stage + 1, Counter()), places[source]
                for place, replicas in targets.items():
                    counts[here, place] += parts * replicas
                if source in step.targets:
                    counts[here, here] -= parts
        return tuple(+by_stage[stage] for stage in sorted(by_stage) if +by_stage[stage])

    @property
    def is_uneven(self) -> bool:
        """Whether some replicas send more than others."""
        sent: Counter[int] = Counter()
        for stage in self.part_counts(range(len(self.topology))):
            for (source, _), parts in stage.items():
                sent[source] += parts
        return len(set(sent.values())) > 1

    @property
    def _steps(self) -> Iterator[_Leaves | _Relays]:
        replicas = list(range(len(self.topology)))
        return self._inside(self.topology.root, 0, _Held(replicas, [0] * len(replicas)))

    def _inside(self, group: Group, level: int, held: _Held) -> Iterator[_Leaves | _Relays]:
        """The steps that take all parts from their holders in `group` to every member of `group`."""
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
        """The parts of a group with their levels; a part without relays is replaced by its own parts."""
        for part in group.parts:
            if part.parts and level + 1 not in self.levels:
                yield from self._parts(part, level + 1)
            else:
                yield part, level + 1


@lru_cache(maxsize=16)
def gather_among(topology: Topology) -> Gather:
    """The gather among the replicas of a topology: direct, or by relays if these pay."""
    direct = Gather(topology, frozenset())
    gathers = [direct, *(Gather(topology, levels) for levels in _choices(_depth(topology.root)))]
    return min(gathers, key=lambda gather: _seconds(gather) / WORTH ** len(gather.levels)) if gathers[1:] else direct


def gather_stages(topology: Topology, transfer: Transfer) -> tuple[Stage, ...]:
    """The stages of messages of a gather. Each message is a copy of `transfer` with other ends."""
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
    """The number of levels of groups inside `group` that have several members."""
    return max((1 + _depth(part) for part in group.parts if part.parts), default=0)


def _choices(depth: int) -> list[frozenset[int]]:
    """The sets of levels whose groups may have relays: all runs of consecutive levels, the short runs first."""
    starts = ((first, count) for count in range(1, depth + 1) for first in range(1, depth - count + 2))
    return [frozenset(range(first, first + count)) for first, count in starts]


def _seconds(gather: Gather) -> float:
    """The duration of a gather per unit of part size: stages follow one another, each as long as its busiest link.

    Rates are rounded as in the cluster's digest, so that clusters with one digest have one gather.
    """
    total, topology = 0.0, gather.topology
    for stage in gather.part_counts(topology.nodes):
        busy: dict[int, float] = {}
        for ends, parts in stage.items():
            for link in topology.cluster.route(*ends):
                busy[id(link)] = busy.get(id(link), 0.0) + parts / 2 ** (link.coarse_rate / 2)
        total += max(busy.values())
    return total
