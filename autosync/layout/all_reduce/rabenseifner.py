"""Rabenseifner's all-reduce, near before far: `halving_doubling` in which neighbours exchange the largest halves.

Neighbours are neighbours in the topology: first the replicas of a node exchange, then the replicas of a rack, then
racks, and inside each of these groups neighbours in order (`layout.nesting`). Nodes and racks whose links are at most
half as fast as the others' come last. For a power of two in order, these are Rabenseifner's distances 1, 2, ..., P/2
(Thakur, Rabenseifner and Gropp 2005).

So few bytes leave a rack. Each of two racks sends the bucket once to the other, for any number of nodes, where a ring
sends up to twice the bucket; each of G racks sends 2(G-1)/G of the bucket. All replicas of a rack take part, each with
its share. If racks differ, shares are cut so that every piece has a counterpart (`layout.hierarchical_moves`). A single
slow node sends the bucket once.

In 16 bits an element is rounded once in each round while it is summed and once when the mean is sent. If racks are
equal, its error is at most about ceil(log2 N) + 1 times that of one message (`wire`) of the largest partial sum.
"""

from autosync.layout.all_reduce import LaidOut
from autosync.layout.hierarchical_moves import hierarchical_moves
from autosync.layout.moves import Moves
from autosync.layout.nesting import HALVES, is_regular, near_and_fast
from autosync.layout.topology import Group, Topology
from autosync.spec import ClusterSpec


def halving_group(topology: Topology) -> Group:
    """The topology's groups, split in halves: the parts of each group exchange with each other."""
    return HALVES.of(near_and_fast(topology))


def _moves(topology: Topology, elements: int, _: int) -> Moves:
    return hierarchical_moves(halving_group(topology), elements)


def _some_are_nearer(cluster: ClusterSpec) -> bool:
    """Whether some of three or more replicas are nearer together: they share a node or a rack, or have faster links."""
    return any(part.parts for part in near_and_fast(Topology.of(cluster)).parts)


LAID_OUT = LaidOut(
    _moves, differs=_some_are_nearer, uneven=lambda cluster: not is_regular(halving_group(Topology.of(cluster)))
)
