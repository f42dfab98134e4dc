"""Buckets in pieces: while one is being added, the one before it goes on, or back already.

A piece takes R rounds. The next begins a round after it, so that there are K + R - 1 rounds of K pieces, and in the
middle of them each link carries, of R pieces, all that it carries of one. So K pieces take about L + E / K a byte,
where L is what the busiest link takes that never waits, and L + E what the rounds of one whole bucket take that wait
for one another. Each piece costs all messages once more. So what to cut a bucket in follows from what a byte and a
message cost on the links at hand (`schedule.py`), for a bucket of `NOMINAL_BYTES`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from autosync.layout.fitting.packing import Packing
from autosync.layout.fitting.tree import Direction, Tree
from autosync.layout.moves import Move, Moves, MovesOf
from autosync.layout.topology import Topology
from autosync.spec import shard_sizes

LEAST_WAY = 2e-3
"""Ways of a smaller share of a bucket are left out."""


@dataclass(frozen=True)
class Way:
    """A `share` of a bucket is summed along `into`, and its mean goes along `out` of the same root."""

    into: Tree
    out: Tree
    share: float


def ways_of(packing: Packing) -> tuple[Way, ...]:
    """Trees into and out of each root in pairs, the larger shares first."""
    found: list[Way] = []
    for root in sorted({tree.root for tree, _ in packing.shares}):
        into, out = _heaviest(packing, root, "in"), _heaviest(packing, root, "out")
        while into and out:
            (there, first), (back, second) = into.pop(), out.pop()
            share = min(first, second)
            found.append(Way(there, back, share))
            into += [(there, first - share)] if first - share >= LEAST_WAY else []
            out += [(back, second - share)] if second - share >= LEAST_WAY else []
    kept = [way for way in found if way.share >= LEAST_WAY]
    whole = sum(way.share for way in kept)
    return tuple(Way(way.into, way.out, way.share / whole) for way in kept)


def _heaviest(packing: Packing, root: int, direction: Direction) -> list[tuple[Tree, float]]:
    """The trees of a root with their shares, the largest last."""
    own = [(tree, share) for tree, share in packing.shares if (tree.root, tree.direction) == (root, direction)]
    return sorted(own, key=lambda each: each[1])


def moves_along(ways: Sequence[Way], topology: Topology, elements: int, _: int = 0) -> Moves:
    """The moves of a bucket along ways between nodes. A node's replicas send to one of them, which takes part."""
    on_node: dict[str, list[int]] = {}
    for replica, node in enumerate(topology.nodes):
        on_node.setdefault(node, []).append(replica)
    replicas = list(on_node.values())
    up, down = (max(map(len, trees)) for trees in ([way.into.rounds for way in ways], [way.out.rounds for way in ways]))
    adding: list[list[Move]] = [[] for _ in range(up + 1)]
    copying: list[list[Move]] = [[] for _ in range(down + 1)]
    ends = [round(share * elements) for share in accumulate(way.share for way in ways)]
    for number, (way, span) in enumerate(zip(ways, pairwise([0, *ends[:-1], elements]), strict=True)):
        if span[0] == span[1]:
            continue
        lead = [each[number % len(each)] for each in replicas]
        inside = [(one, at) for at, each in zip(lead, replicas, strict=True) for one in each if one != at]
        adding[0] += [Move(one, at, span) for one, at in inside]
        copying[-1] += [Move(at, one, span) for one, at in inside]
        for rounds, tree, first in ((adding, way.into, up + 1 - len(way.into.rounds)), (copying, way.out, 0)):
            for turn, arcs in enumerate(tree.rounds, first):
                rounds[turn] += [Move(lead[u], lead[v], span) for u, v in arcs]
    return Moves(tuple(tuple(each) for each in adding if each), tuple(tuple(each) for each in copying if each))


def in_pieces(moves_of: MovesOf, pieces: int, topology: Topology, elements: int) -> Moves:
    """The moves of a bucket of which each piece goes by `moves_of`, uncut, a round after the one before it."""
    sizes = shard_sizes(elements, min(pieces, elements))
    each = [moves_of(topology, size, 0) for size in sizes]
    if len(each) == 1:
        return each[0]
    up, down = max(len(one.adding) for one in each), max(len(one.copying) for one in each)
    adding: list[list[Move]] = [[] for _ in range(len(each) + up - 1)]
    copying: list[list[Move]] = [[] for _ in range(len(each) + down - 1)]
    for piece, (begin, one) in enumerate(zip(accumulate((0, *sizes)), each, strict=False)):
        for rounds, own in ((adding, one.adding), (copying, one.copying)):
            for turn, moves in enumerate(own, piece):
                rounds[turn] += [Move(source, target, (begin + a, begin + b)) for source, target, (a, b) in moves]
    cuts = tuple(accumulate(sizes[:-1]))
    return Moves(tuple(map(tuple, adding)), tuple(map(tuple, copying)), beside=up, cuts=cuts)
