"""An all-reduce by groups: inside the smallest ones first, then across those, with all members, and the same way back.

At each group its parts reduce-scatter, each by itself. Then a member of a part holds the sum of some of the bucket over
that part. A *track* is elements that one member of each part holds: these send them to one of themselves. Where the
parts are cut alike, a track is a member's share. Where they are not, shares are cut at the bounds of all.

Each of a track's holders gets an equal part of it if tracks are shares, or if there are no more than two such parts for
each member. Else most tracks go to one of their holders whole, so that the group's parts come out about even: however
deep unlike groups are in each other, messages stay few.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from typing import TypeAlias

from autosync.layout.moves import Move, Moves, Span
from autosync.layout.topology import Group
from autosync.spec import shard_sizes

Shares: TypeAlias = list[tuple[Span, int]]
"""Which member of a group has the sum of which elements, in their order."""

MORE = 1 / 16
"""The share that a part of a group gets too much, so that no small rest of a track is a message of its own."""


@dataclass(frozen=True)
class Track:
    """Elements that are held by one member of each part."""

    span: Span
    holders: tuple[int, ...]

    @property
    def size(self) -> int:
        return self.span[1] - self.span[0]


def grouped_moves(group: Group, elements: int) -> Moves:
    """The moves of an all-reduce among the members of `group`; all parts of a group meet in one round."""
    rounds, _ = _scattered(group, elements)
    return Moves.there_and_back(sorted(each) for each in rounds)


def _scattered(group: Group, elements: int) -> tuple[list[list[Move]], Shares]:
    """The rounds of the group's reduce-scatter, and what each has after it."""
    if not group.parts:
        return [], [((0, elements), group.members[0])]
    of_parts = [_scattered(part, elements) for part in group.parts]
    inside = zip_longest(*(rounds for rounds, _ in of_parts), fillvalue=())
    rounds = [[move for moves in each for move in moves] for each in inside]
    kept = list(_kept([shares for _, shares in of_parts], len(group.members)))
    across = [Move(each, owner, track.span) for track, owner in kept for each in track.holders if each != owner]
    return [*rounds, across], [(track.span, owner) for track, owner in kept]


def _kept(parts: Sequence[Shares], members: int) -> Iterator[tuple[Track, int]]:
    """Tracks, or parts of them, with the holder that gets each, in the order of their elements."""
    tracks, count = list(_tracks(parts)), len(parts)
    alike = all(len(shares) == len(tracks) for shares in parts)
    if alike or len(tracks) * count <= 2 * members:
        dealt = [list(enumerate(shard_sizes(each.size, min(count, each.size)))) for each in tracks]
    else:
        dealt = _dealt(tracks, count)
    for track, sizes in zip(tracks, dealt, strict=True):
        begin = track.span[0]
        for place, size in sizes:
            yield Track((begin, begin + size), track.holders), track.holders[place]
            begin += size


def _tracks(parts: Sequence[Shares]) -> Iterator[Track]:
    """What the parts' shares have in common, cut at the bounds of all."""
    left = [iter(shares) for shares in parts]
    now = [next(shares) for shares in left]
    for begin, end in pairwise(sorted({bound for shares in parts for span, _ in shares for bound in span})):
        now = [next(rest) if held[0][1] <= begin else held for rest, held in zip(left, now, strict=True)]
        yield Track((begin, end), tuple(member for _, member in now))


def _dealt(tracks: Sequence[Track], count: int) -> list[list[tuple[int, int]]]:
    """Which of the `count` parts get how much of each track, so that all come out about even.

    The largest tracks go first, to the part that lacks most, and what is too much for it to the next one.
    """
    total = sum(each.size for each in tracks)
    lacking, of_member = [total / count] * count, Counter[int]()
    dealt: list[list[tuple[int, int]]] = [[] for _ in tracks]
    for number in sorted(range(len(tracks)), key=lambda number: -tracks[number].size):
        left, holders = tracks[number].size, tracks[number].holders
        while left:
            place = max(range(count), key=lambda part: (lacking[part], -of_member[holders[part]]))
            size = left if left <= lacking[place] + total / count * MORE else math.ceil(lacking[place])
            dealt[number].append((place, size))
            lacking[place] -= size
            of_member[holders[place]] += size
            left -= size
    return dealt
