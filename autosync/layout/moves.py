"""Moves: an all-reduce as rounds of messages between its members, from which both its ops and its figures follow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from typing import NamedTuple, TypeAlias

from autosync.layout.exchange import Exchange, Stage, Transfer, Work
from autosync.layout.topology import Topology

Span: TypeAlias = tuple[int, int]
"""Elements of a bucket, from the first to before the second."""


class Move(NamedTuple):
    """The elements of `span` go from member `source` to member `target`: places among those who all-reduce."""

    source: int
    target: int
    span: Span


Round: TypeAlias = tuple[Move, ...]
"""Moves at the same time: each takes what its source had when the round began."""


@dataclass(frozen=True)
class Moves:
    """An all-reduce. In rounds of `adding`, a target adds what arrives to its own, in the order of the moves.

    Where a round sends a part of what a member has, that is cut, at all bounds of the round's spans that are not inside
    of one that the member sends or gets; it is not put together again. What a member has then, and is not handed later,
    is the whole sum, of which it makes the mean. In rounds of `copying` means go on as they are, put together where a
    span is larger than what came. So the mean of each element is made once, and all members get the same bits.

    Of a bucket in pieces, some are copied while others are added: the first round of copying goes on beside the one of
    adding of number `beside`, and so on; None if copying comes after adding. The bucket is cut in these pieces, at
    `cuts`, before the first round, and a member holds back a piece until what was to come before it has come.
    """

    adding: tuple[Round, ...]
    copying: tuple[Round, ...]
    beside: int | None = None
    cuts: tuple[int, ...] = ()

    @cached_property
    def timed(self) -> tuple[tuple[Round, Round], ...]:
        """What is added and what is copied at the same time, in order of time."""
        begin = len(self.adding) if self.beside is None else self.beside
        return tuple(zip_longest(self.adding, (*((),) * begin, *self.copying), fillvalue=()))

    @property
    def stages(self) -> tuple[Round, ...]:
        """All moves that go on at the same time, in order of time."""
        return tuple((*added, *copied) for added, copied in self.timed)

    @classmethod
    def there_and_back(cls, rounds: Iterable[Iterable[Move]]) -> Moves:
        """Sums go by `rounds`, and means the same way back, in the order of who sends."""
        there = tuple(map(tuple, rounds))
        back = (tuple(sorted(Move(target, source, span) for source, target, span in each)) for each in reversed(there))
        return cls(there, tuple(back))


MovesOf: TypeAlias = Callable[[Topology, int, int], Moves]
"""The moves among replicas that are there, of a bucket of so many elements (1 or more) of so many bytes."""

ELEMENTS = 2**20 * 3**6 * 5**3 * 7**2 * 11 * 13
"""Elements of the bucket from whose moves shares are taken; they are exact where it is halved up to twenty times, and
cut in three, five or seven a few times, or in eleven or thirteen."""


def exchange_of(moves_of: MovesOf, topology: Topology, slots: int) -> Exchange:
    """Every move listed: a replica adds what it receives on the way, and updates the whole with its `slots` slots."""
    moves = moves_of(topology, ELEMENTS, 0)
    added: Counter[int] = Counter()
    for _, target, (begin, end) in (move for each in moves.adding for move in each):
        added[target] += end - begin
    push = tuple(stage_of(each, ELEMENTS, topology) for each in moves.stages)
    work = tuple(
        Work(each, added[place] / ELEMENTS, updated_held=1.0 + slots) for place, each in enumerate(topology.replicas)
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
