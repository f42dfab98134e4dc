"""Pipelined buckets: while one piece is being added, the previous piece is in a later round or already on its way back.

A piece takes R rounds. The next piece begins one round later, so K pieces take K + R - 1 rounds. In the middle rounds,
R pieces are under way, and each link carries in one round as much as it carries for one piece in all rounds. So K
pieces take about L + E / K a byte, where L is the time of the busiest link if it never waits, and L + E is the time of
one whole bucket whose rounds wait for one another. Every piece costs all messages again. So the number of pieces
follows from the cost of a byte and of a message on the cluster's links (`schedule.py`), for a bucket of
`NOMINAL_BYTES`.
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
"""Ways with a smaller share of a bucket are left out."""


@dataclass(frozen=True)
class Way:
    """A `share` of a bucket is summed along the tree `into`; the mean goes along the tree `out` of the same root."""

    into: Tree
    out: Tree
    share: float


def ways_of(packing: Packing) -> tuple[Way, ...]:
    """The packing as pairs of trees into and out of the same root, the larger shares first."""
    ways: list[Way] = []
    for root in sorted({tree.root for tree, _ in packing.shares}):
        into, out = _heaviest(packing, root, "in"), _heaviest(packing, root, "out")
        while into and out:
            (there, first), (back, second) = into.pop(), out.pop()
            share = min(first, second)
            ways.append(Way(there, back, share))
            into += [(there, first - share)] if first - share >= LEAST_WAY else []
            out += [(back, second - share)] if second - share >= LEAST_WAY else []
    kept = [way for way in ways if way.share >= LEAST_WAY]
    whole = sum(way.share for way in kept)
    return tuple(Way(way.into, way.out, way.share / whole) for way in kept)


def _heaviest(packing: Packing, root: int, direction: Direction) -> list[tuple[Tree, float]]:
    """The trees of a root with their shares, the largest last."""
    shares = [(tree, share) for tree, share in packing.shares if (tree.root, tree.direction) == (root, direction)]
    return sorted(shares, key=lambda entry: entry[1])


def moves_along(ways: Sequence[Way], topology: Topology, elements: int, _: int = 0) -> Moves:
    """The moves of a bucket along ways between nodes. On each node the replicas send to one of them, the leader, which
    takes part for the node; leaders change from way to way."""
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
        leaders = [members[number % len(members)] for members in replicas]
        inside = [
            (member, leader)
            for leader, members in zip(leaders, replicas, strict=True)
            for member in members
            if member != leader
        ]
        adding[0] += [Move(member, leader, span) for member, leader in inside]
        copying[-1] += [Move(leader, member, span) for member, leader in inside]
        for rounds, tree, first in ((adding, way.into, up + 1 - len(way.into.rounds)), (copying, way.out, 0)):
            for turn, arcs in enumerate(tree.rounds, first):
                rounds[turn] += [Move(leaders[u], leaders[v], span) for u, v in arcs]
    return Moves(tuple(tuple(moves) for moves in adding if moves), tuple(tuple(moves) for moves in copying if moves))


def in_pieces(moves_of: MovesOf, pieces: int, topology: Topology, elements: int) -> Moves:
    """The moves of a bucket in pieces. Every piece goes by `moves_of`, uncut, one round after the previous piece."""
    sizes = shard_sizes(elements, min(pieces, elements))
    of_pieces = [moves_of(topology, size, 0) for size in sizes]
    if len(of_pieces) == 1:
        return of_pieces[0]
    up, down = max(len(piece.adding) for piece in of_pieces), max(len(piece.copying) for piece in of_pieces)
    adding: list[list[Move]] = [[] for _ in range(len(of_pieces) + up - 1)]
    copying: list[list[Move]] = [[] for _ in range(len(of_pieces) + down - 1)]
    for number, (begin, piece) in enumerate(zip(accumulate((0, *sizes)), of_pieces, strict=False)):
        for rounds, rounds_of_piece in ((adding, piece.adding), (copying, piece.copying)):
            for turn, moves in enumerate(rounds_of_piece, number):
                rounds[turn] += [Move(source, target, (begin + a, begin + b)) for source, target, (a, b) in moves]
    cuts = tuple(accumulate(sizes[:-1]))
    return Moves(tuple(map(tuple, adding)), tuple(map(tuple, copying)), beside=up, cuts=cuts)
