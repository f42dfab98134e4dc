"""BlueConnect: reduce-scatter and all-gather level by level, all members at once (Cho, Finkler, Kung and Hunter 2019).

Replicas of a node reduce-scatter, then those of a rack that hold the same share, then those of all racks; and all
gather the same way back. Groups are those of `rabenseifner`, and as much is sent. But up to five parts of a group, or
seven, exchange with each other all at once, where the paper has a ring: in one round with k-1 messages each, in place
of log2 k rounds. More parts make groups of four, or another few, in one level more (`layout.nesting`).

So it has the fewest rounds of all that send little: on a switch with four nodes one there and one back. A replica sends
at most as many messages as in a ring.

In 16 bits an element is rounded once a level while it is summed and once when the mean is sent: its error is at most
about L + 1 times that of one message (`wire`) of the largest partial sum, with L levels.
"""

from autosync.layout.all_reduce import LaidOut
from autosync.layout.all_reduce.rabenseifner import halved
from autosync.layout.grouped import grouped_moves
from autosync.layout.moves import Moves
from autosync.layout.nesting import LEVELS, is_regular, near_and_fast
from autosync.layout.topology import Group, Topology
from autosync.spec import ClusterSpec


def _levels(topology: Topology) -> Group:
    return LEVELS.of(near_and_fast(topology))


def _moves(topology: Topology, elements: int, _: int) -> Moves:
    return grouped_moves(_levels(topology), elements)


def _unlike_halves(cluster: ClusterSpec) -> bool:
    """Whether some exchange at once what by halves is exchanged in turn."""
    topology = Topology.of(cluster)
    return _levels(topology) != halved(topology)


LAID_OUT = LaidOut(_moves, differs=_unlike_halves, uneven=lambda cluster: not is_regular(_levels(Topology.of(cluster))))
