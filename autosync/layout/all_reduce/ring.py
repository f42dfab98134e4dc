"""Ring all-reduce: reduce-scatter, then all-gather, between neighbours (Patarasuk and Yuan 2009).

N replicas cut a bucket of B bytes into N chunks. In each of N-1 steps every replica sends one chunk to the next
replica, which adds its own. Then each replica has the sum of one chunk, and N-1 more steps pass the means round. Every
replica sends 2(N-1)/N * B bytes in 2(N-1) messages.

A large chunk goes round in pieces, each as early as possible: while one piece is being added, others are on the link.

In 16 bits an element is rounded N-1 times while it is summed and once when the mean is sent: its error is at most
about N times that of one message (`wire`) of the largest partial sum.
"""

from collections.abc import Sequence

from autosync.layout.all_reduce import LaidOut
from autosync.layout.exchange import DeviceWork, Exchange, Stage, Transfer
from autosync.layout.moves import Move, Moves, Span
from autosync.layout.topology import Topology
from autosync.spec import shard_sizes

RING_PIECE_BYTES, MOST_RING_PIECES = 1 << 19, 8
"""Approximate bytes of a chunk's pieces, and the maximum number of pieces. Each piece costs messages and traced ops."""


def ring_pieces(chunk_bytes: float) -> int:
    """The number of pieces, at least 1, into which a chunk of `chunk_bytes` is cut."""
    return max(1, min(round(chunk_bytes / RING_PIECE_BYTES), MOST_RING_PIECES))


def ring_moves(members: Sequence[int], elements: int, item_bytes: int) -> Moves:
    """The moves of a ring of `members`."""
    count, pieces = len(members), _pieces(len(members), elements, item_bytes)
    rounds = tuple(
        tuple(
            Move(members[(chunk + step) % count], members[(chunk + step + 1) % count], span) for chunk, span in pieces
        )
        for step in range(2 * (count - 1))
    )
    return Moves(rounds[: count - 1], rounds[count - 1 :])


def _pieces(count: int, elements: int, item_bytes: int) -> list[tuple[int, Span]]:
    """(chunk, span) of every piece, in the order of the array; short arrays have fewer than `count` chunks."""
    pieces, begin = [], 0
    for chunk, size in enumerate(shard_sizes(elements, min(count, elements))):
        for piece in shard_sizes(size, ring_pieces(size * item_bytes)):
            pieces.append((chunk, (begin, begin + piece)))
            begin += piece
    return pieces


def ring_stage(members: Sequence[int], topology: Topology) -> Stage:
    """The sum of the moves of a ring of `members`, with whole chunks."""
    count = len(members)
    hops = 2 * (count - 1)
    ring = [topology.replicas[member] for member in members]
    neighbours = zip(ring, (*ring[1:], ring[0]), strict=True)
    transfers = tuple(
        Transfer(source, target, payload=hops / count, messages=hops, gradients=hops)
        for source, target in neighbours
        if topology.processes.apart(source, target)
    )
    return Stage(transfers, hops)


def ring_exchange(topology: Topology, slots: int) -> Exchange:
    """The exchange in which every replica adds N-1 chunks to its own and updates the whole bucket with its `slots`
    optimizer slots."""
    count = len(topology)
    work = tuple(DeviceWork(replica, (count - 1) / count, updated_held=1.0 + slots) for replica in topology.replicas)
    return Exchange(push=(ring_stage(range(count), topology),), work=work)


LAID_OUT = LaidOut(lambda topology, *bucket: ring_moves(range(len(topology)), *bucket), ring_exchange)
