"""A hierarchical all-reduce: inside the smallest groups first, then across groups with all members, and back.

In each group, every part first performs a reduce-scatter by itself. Then each member of a part holds, for some elements
of the bucket, the sum over that part. A *track* is a run of elements that one member of each part holds; these holders
send their sums to one of the holders. If all parts are cut at the same bounds, a track is a member's share. If not,
shares are cut at the bounds of all parts.

Each holder of a track gets an equal piece of the track if tracks are shares, or if there are at most two such pieces
for each member. Otherwise most tracks go whole to one of their holders, chosen so that the group's parts end up with
about equal amounts. So messages stay few, however deeply unequal groups are nested.
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
"""(span, member): the member of a group that holds the sum of the span's elements, in the order of the elements."""

MORE = 1 / 16
"""The share by which a part of a group may exceed its due, so that no small rest of a track needs a message."""


@dataclass(frozen=True)
class Track:
    """A run of elements, and the member of each part that holds them."""

    span: Span
    holders: tuple[int, ...]

    @property
    def size(self) -> int:
        return self.span[1] - self.span[0]


def hierarchical_moves(group: Group, elements: int) -> Moves:
    """The moves of an all-reduce among the members of `group`; all parts of a group exchange in one round."""
    rounds, _ = _reduce_scatter(group, elements)
    return Moves.there_and_back(sorted(moves) for moves in rounds)


def _reduce_scatter(group: Group, elements: int) -> tuple[list[list[Move]], Shares]:
    """The rounds of the group's reduce-scatter, and the members' shares after it."""
    if not group.parts:
        return [], [((0, elements), group.members[0])]
    of_parts = [_reduce_scatter(part, elements) for part in group.parts]
    inside = zip_longest(*(rounds for rounds, _ in of_parts), fillvalue=())
    rounds = [[move for moves in concurrent for move in moves] for concurrent in inside]
    owners = list(_owners([shares for _, shares in of_parts], len(group.members)))
    across = [Move(holder, owner, track.span) for track, owner in owners for holder in track.holders if holder != owner]
    return [*rounds, across], [(track.span, owner) for track, owner in owners]


def _owners(parts: Sequence[Shares], members: int) -> Iterator[tuple[Track, int]]:
    """Tracks, or pieces of tracks, with the holder that gets each, in the order of the elements."""
    tracks, count = list(_tracks(parts)), len(parts)
    alike = all(len(shares) == len(tracks) for shares in parts)
    if alike or len(tracks) * count <= 2 * members:
        pieces = [list(enumerate(shard_sizes(track.size, min(count, track.size)))) for track in tracks]
    else:
        pieces = _deal(tracks, count)
    for track, sizes in zip(tracks, pieces, strict=True):
        begin = track.span[0]
        for place, size in sizes:
            yield Track((begin, begin + size), track.holders), track.holders[place]
            begin += size


def _tracks(parts: Sequence[Shares]) -> Iterator[Track]:
    """The intersections of the parts' shares: all elements, cut at the bounds of all parts."""
    left = [iter(shares) for shares in parts]
    now = [next(shares) for shares in left]
    for begin, end in pairwise(sorted({bound for shares in parts for span, _ in shares for bound in span})):
        now = [next(rest) if held[0][1] <= begin else held for rest, held in zip(left, now, strict=True)]
        yield Track((begin, end), tuple(member for _, member in now))


def _deal(tracks: Sequence[Track], count: int) -> list[list[tuple[int, int]]]:
    """Deal each track to the `count` parts as (part, elements), so that all parts get about equal amounts.

    The largest tracks are dealt first, to the part that lacks most; the excess goes to the next part.
    """
    total = sum(track.size for track in tracks)
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
