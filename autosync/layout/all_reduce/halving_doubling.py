"""All-reduce by recursive halving and doubling (Thakur, Rabenseifner and Gropp 2005).

P is the largest power of two of at most N replicas. Those beyond the first P send their bucket to the replica P before
them, and get the result from it at the end. Among the P, in rounds of distance d = P/2, P/4, ..., 1, replica r and
r xor d exchange halves of what they still hold, the lower one keeping the first, and add; then the distances are gone
through the other way, and what a replica holds of the mean doubles. Each of the P sends 2(P-1)/P of the bucket in
2 log2 P messages, and whoever takes one for a replica beyond them a bucket more.

In 16 bits an element is rounded at most ceil(log2 N) times while it is summed and once when the mean is sent: its error
is at most about ceil(log2 N) + 1 times that of one message (`wire`) of the largest partial sum.
"""

from collections import Counter
from collections.abc import Sequence

from autosync.layout.all_reduce import LaidOut
from autosync.layout.moves import Move, Moves, Round, Span
from autosync.layout.topology import Topology
from autosync.spec import ClusterSpec


def _moves(topology: Topology, elements: int, _: int) -> Moves:
    inner = 1 << (len(topology).bit_length() - 1)
    late = [(member, member - inner) for member in range(inner, len(topology))]
    return halving_moves(len(topology), elements, late, [inner >> k for k in range(1, inner.bit_length())])


def halving_moves(count: int, elements: int, late: Sequence[tuple[int, int]], distances: Sequence[int]) -> Moves:
    """Halving at `distances`, the powers of two below P in some order, and the same way back.

    P of the `count` members do so: those that are not the first of a pair of `late`. Those send their bucket to the
    second one of their pair before, and get the result from it at the end.
    """
    sent = {source for source, _ in late}
    inner = [member for member in range(count) if member not in sent]
    held: list[Span] = [(0, elements)] * len(inner)
    rounds = [tuple(Move(source, target, (0, elements)) for source, target in late)] if late else []
    for far in distances:
        halves = [_halves(span, bool(place & far)) for place, span in enumerate(held)]
        rounds.append(_exchanged(inner, far, [given for _, given in halves]))
        held = [kept for kept, _ in halves]
    return Moves.there_and_back(rounds)


def _halves(span: Span, upper: bool) -> tuple[Span, Span]:
    """The half that is kept, the `upper` one or not, and the other; the lower one is the longer one."""
    begin, end = span
    middle = (begin + end + 1) // 2
    halves = (begin, middle), (middle, end)
    return halves[upper], halves[not upper]


def _exchanged(inner: Sequence[int], far: int, given: Sequence[Span]) -> Round:
    """What each gives to the one `far` from it; who has one element left has no second half."""
    moves = (Move(member, inner[place ^ far], given[place]) for place, member in enumerate(inner))
    return tuple(move for move in moves if move.span[0] < move.span[1])


def halves_unevenly(cluster: ClusterSpec) -> bool:
    """Unless replicas are a power of two, as many on each node, and nodes as many on each switch that has some."""
    nodes = Counter(device.node for device in cluster.replica_devices)
    links = cluster.links
    switches = Counter(link.target for link in links if link.source in nodes and link.target not in nodes)
    replicas = nodes.total()
    return replicas & (replicas - 1) != 0 or any(len(set(each.values())) > 1 for each in (nodes, switches))


LAID_OUT = LaidOut(_moves, differs=lambda cluster: len(cluster.replica_devices) > 2, uneven=halves_unevenly)
