"""BlueConnect: reduce-scatter and all-gather level by level, all members at once (Cho, Finkler, Kung and Hunter 2019).

First the replicas of a node reduce-scatter, then the replicas of a rack that hold the same share, then those of all
racks; the all-gather takes the reverse path. Groups and bytes are those of `rabenseifner`. But up to five parts of a
group, or seven, exchange with each other all at once, where the paper has a ring: one round with k-1 messages per
member, instead of log2 k rounds. More parts form groups of four, or another small number, with one more level
(`layout.nesting`).

So among the algorithms that send few bytes, BlueConnect has the fewest rounds: on a switch with four nodes, one round
for sums and one for means. A replica sends at most as many messages as in a ring.

In 16 bits an element is rounded once a level while it is summed and once when the mean is sent: its error is at most
about L + 1 times that of one message (`wire`) of the largest partial sum, with L levels.
"""

from autosync.layout.all_reduce import LaidOut
from autosync.layout.all_reduce.rabenseifner import halving_group
from autosync.layout.hierarchical_moves import hierarchical_moves
from autosync.layout.moves import Moves
from autosync.layout.nesting import LEVELS, is_regular, near_and_fast
from autosync.layout.topology import Group, Topology
from autosync.spec import ClusterSpec


def _levels(topology: Topology) -> Group:
    return LEVELS.of(near_and_fast(topology))


def _moves(topology: Topology, elements: int, _: int) -> Moves:
    return hierarchical_moves(_levels(topology), elements)


def _unlike_halves(cluster: ClusterSpec) -> bool:
    """Whether some members exchange in one round where recursive halving needs several."""
    topology = Topology.of(cluster)
    return _levels(topology) != halving_group(topology)


LAID_OUT = LaidOut(_moves, differs=_unlike_halves, uneven=lambda cluster: not is_regular(_levels(Topology.of(cluster))))
