"""Moves: an all-reduce as rounds of messages between its members. Engines execute them and simulators count them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from typing import NamedTuple, TypeAlias

from autosync.layout.exchange import DeviceWork, Exchange, Stage, Transfer
from autosync.layout.topology import Topology

Span: TypeAlias = tuple[int, int]
"""A range of elements of a bucket: (begin, end), where `end` is exclusive."""


class Move(NamedTuple):
    """The elements of `span` go from member `source` to member `target`; members are numbered from 0."""

    source: int
    target: int
    span: Span


Round: TypeAlias = tuple[Move, ...]
"""Concurrent moves: each carries the values that its source held when the round began."""


@dataclass(frozen=True)
class Moves:
    """The rounds of an all-reduce.

    If a round sends a part of a span that a member holds, the member cuts the span, at all bounds of the round's spans
    that are not inside a span that the member sends or receives. Cut spans are not joined again while adding. After the
    adding rounds, a member holds complete sums for the spans it does not receive later; it divides these by the number
    of members. In copying rounds the means are forwarded unchanged, and joined if a span is larger than the pieces that
    arrived. So the mean of each element is computed once, and all members get the same bits.
    """

    adding: tuple[Round, ...]
    """Rounds in which a target adds the arriving sums to its own, in the order of the moves."""

    copying: tuple[Round, ...]
    """Rounds in which means are copied."""

    beside: int | None = None
    """The number of the adding round that runs at the same time as the first copying round, if a bucket goes in pieces;
    the following rounds pair up likewise. None if copying follows all adding."""

    cuts: tuple[int, ...] = ()
    """The bounds at which the bucket is cut into pieces before the first round. A member sends a piece only after it
    has received everything that was due before."""

    @cached_property
    def round_pairs(self) -> tuple[tuple[Round, Round], ...]:
        """The adding and the copying round of each point in time, in order."""
        begin = len(self.adding) if self.beside is None else self.beside
        return tuple(zip_longest(self.adding, (*((),) * begin, *self.copying), fillvalue=()))

    @property
    def stages(self) -> tuple[Round, ...]:
        """All concurrent moves, in order of time."""
        return tuple((*added, *copied) for added, copied in self.round_pairs)

    @classmethod
    def there_and_back(cls, rounds: Iterable[Iterable[Move]]) -> Moves:
        """Moves in which sums go by `rounds`, and means take the reverse path, ordered by sender."""
        there = tuple(map(tuple, rounds))
        back = (
            tuple(sorted(Move(target, source, span) for source, target, span in moves)) for moves in reversed(there)
        )
        return cls(there, tuple(back))


MovesOf: TypeAlias = Callable[[Topology, int, int], Moves]
"""(topology, elements, item bytes) -> the moves of a bucket of `elements` (1 or more) among the topology's replicas."""

ELEMENTS = 2**20 * 3**6 * 5**3 * 7**2 * 11 * 13
"""Elements of the bucket whose moves give the shares. Shares are exact if this bucket is halved up to twenty times, and
cut into three, five or seven a few times, or into eleven or thirteen once."""


def exchange_of(moves_of: MovesOf, topology: Topology, slots: int) -> Exchange:
    """The exchange that lists every move. A replica adds the sums it receives and updates the whole bucket with its
    `slots` optimizer slots."""
    moves = moves_of(topology, ELEMENTS, 0)
    added: Counter[int] = Counter()
    for _, target, (begin, end) in (move for adding in moves.adding for move in adding):
        added[target] += end - begin
    push = tuple(stage_of(concurrent, ELEMENTS, topology) for concurrent in moves.stages)
    work = tuple(
        DeviceWork(replica, added[number] / ELEMENTS, updated_held=1.0 + slots)
        for number, replica in enumerate(topology.replicas)
    )
    return Exchange(push=push, work=work)


def stage_of(moves: Round, elements: int, topology: Topology) -> Stage:
    """The traffic of a round of moves of a bucket of `elements`."""
    replicas = topology.replicas
    ends = ((replicas[source], replicas[target], end - begin) for source, target, (begin, end) in moves)
    return Stage(
        tuple(
            Transfer(source, target, payload=size / elements, gradients=1.0)
            for source, target, size in ends
            if topology.processes.apart(source, target)
        )
    )
