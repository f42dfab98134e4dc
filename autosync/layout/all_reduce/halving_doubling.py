"""All-reduce by recursive halving and doubling (Thakur, Rabenseifner and Gropp 2005), for any number of replicas.

Replicas are parted in two, every other one in each part, and each part again, until two are left. These two, P/2 apart
if there are P = 2^k, exchange halves of their buckets and add; then those of the two parts that hold the same elements
exchange halves of what they hold, P/4 apart, and so on to neighbours in order. Then the same way back, and what a
replica holds of the mean doubles. Each of the P sends 2(P-1)/P of the bucket in 2 log2 P messages.

Three or five replicas exchange thirds or fifths all at once. An odd number goes in three or five parts if it can, and
else in two unlike ones: those who hold some of the same elements exchange halves of these (`layout.grouped`). So each
sends 2(N-1)/N of the bucket in at most 2 ceil(log2 N) rounds, and no replica sends for another. With unlike parts, as
for 7, 11 or 13, some send more, by a thirtieth up to twelve replicas, and by a fifth up to two hundred.

In 16 bits an element is rounded at most ceil(log2 N) times while it is summed and once when the mean is sent: its error
is at most about ceil(log2 N) + 1 times that of one message (`wire`) of the largest partial sum.
"""

from autosync.layout.all_reduce import LaidOut
from autosync.layout.grouped import grouped_moves
from autosync.layout.moves import Moves
from autosync.layout.nesting import FAR_HALVES, is_regular
from autosync.layout.topology import Group, Topology
from autosync.spec import ClusterSpec


def _moves(topology: Topology, elements: int, _: int) -> Moves:
    return grouped_moves(_far_apart(topology), elements)


def _far_apart(topology: Topology) -> Group:
    return FAR_HALVES.of(Group.of([Group((member,)) for member in range(len(topology))]))


def _uneven(cluster: ClusterSpec) -> bool:
    """Unless parts are alike, and so are nodes and racks. A node's replicas are, if all are a power of two."""
    topology = Topology.of(cluster)
    replicas = len(topology)
    alone = len(set(topology.nodes)) == replicas
    even = is_regular(_far_apart(topology)) and is_regular(topology.root)
    return not (even and (alone or replicas & (replicas - 1) == 0))


LAID_OUT = LaidOut(_moves, differs=lambda cluster: len(cluster.replica_devices) > 2, uneven=_uneven)
