"""Rabenseifner's all-reduce, near before far: `halving_doubling` in which neighbours exchange the largest halves.

Neighbours are those of the topology: replicas of a node exchange first, then those of a rack, then racks; inside each
of these, neighbours in order (`layout.nesting`). Nodes and racks whose links are half as fast as others', or less, come
last. On a power of two in order, these are Rabenseifner's distances 1, 2, ..., P/2 (Thakur, Rabenseifner and Gropp
2005).

So little leaves a rack: with two racks, each sends the bucket once to the other, however many nodes it has, where a
ring sends up to twice the bucket; G racks send 2(G-1)/G of it. All replicas of a rack take part, each with its share.
Where racks are unlike, shares are cut so that each has its counterpart (`layout.grouped`). A slow node sends the bucket
once, if it is the only one.

In 16 bits an element is rounded once in each round while it is summed and once when the mean is sent: where racks are
alike its error is at most about ceil(log2 N) + 1 times that of one message (`wire`) of the largest partial sum.
"""

from autosync.layout.all_reduce import LaidOut
from autosync.layout.grouped import grouped_moves
from autosync.layout.moves import Moves
from autosync.layout.nesting import HALVES, is_regular, near_and_fast
from autosync.layout.topology import Group, Topology
from autosync.spec import ClusterSpec


def halved(topology: Topology) -> Group:
    """The topology's groups, in halves: who exchanges with whom."""
    return HALVES.of(near_and_fast(topology))


def _moves(topology: Topology, elements: int, _: int) -> Moves:
    return grouped_moves(halved(topology), elements)


def _some_are_nearer(cluster: ClusterSpec) -> bool:
    """Whether some of three or more replicas share a node or a rack, or have faster links: they are nearer together."""
    return any(part.parts for part in near_and_fast(Topology.of(cluster)).parts)


LAID_OUT = LaidOut(
    _moves, differs=_some_are_nearer, uneven=lambda cluster: not is_regular(halved(Topology.of(cluster)))
)
