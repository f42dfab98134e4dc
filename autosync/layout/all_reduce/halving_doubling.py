"""All-reduce by recursive halving and doubling (Thakur, Rabenseifner and Gropp 2005), for any number of replicas.

Replicas are divided into two parts, alternate replicas in different parts, and each part is divided again, until two
replicas are left. With P = 2^k replicas these two are P/2 apart; they exchange halves of their buckets and add. Then
replicas of the two parts that hold the same elements, P/4 apart, exchange halves of their elements, and so on down to
direct neighbours. The means take the reverse path, and the elements that a replica holds double in each round. Each of
the P replicas sends 2(P-1)/P of the bucket in 2 log2 P messages.

Three or five replicas exchange thirds or fifths all at once. An odd number of replicas is divided into three or five
parts if possible, else into two unequal parts, whose replicas exchange halves of the elements they have in common
(`layout.hierarchical_moves`). So each replica sends 2(N-1)/N of the bucket in at most 2 ceil(log2 N) rounds, and no
replica forwards for another. With unequal parts, as for 7, 11 or 13, some replicas send more: by a thirtieth up to
twelve replicas, and by a fifth up to two hundred.

In 16 bits an element is rounded at most ceil(log2 N) times while it is summed and once when the mean is sent: its error
is at most about ceil(log2 N) + 1 times that of one message (`wire`) of the largest partial sum.
"""

from autosync.layout.all_reduce import LaidOut
from autosync.layout.hierarchical_moves import hierarchical_moves
from autosync.layout.moves import Moves
from autosync.layout.nesting import FAR_HALVES, is_regular
from autosync.layout.topology import Group, Topology
from autosync.spec import ClusterSpec


def _moves(topology: Topology, elements: int, _: int) -> Moves:
    return hierarchical_moves(_far_apart(topology), elements)


def _far_apart(topology: Topology) -> Group:
    return FAR_HALVES.of(Group.of([Group((member,)) for member in range(len(topology))]))


def _is_uneven(cluster: ClusterSpec) -> bool:
    """False only if all parts have the same shape, and so have nodes and racks. Replicas that share a node are even
    only if the number of all replicas is a power of two."""
    topology = Topology.of(cluster)
    replicas = len(topology)
    alone = len(set(topology.nodes)) == replicas
    even = is_regular(_far_apart(topology)) and is_regular(topology.root)
    return not (even and (alone or replicas & (replicas - 1) == 0))


LAID_OUT = LaidOut(_moves, differs=lambda cluster: len(cluster.replica_devices) > 2, uneven=_is_uneven)
