"""Rabenseifner's all-reduce: buckets are halved at doubling distances (Thakur, Rabenseifner and Gropp 2005).

P is the largest power of two of at most N replicas. Of the first 2(N-P), those at odd places send their bucket to the
one before them, and get the result from it at the end. The P that are left halve their sums at distances 1, 2, ...,
P/2, and double the mean the other way. Each of them sends 2(P-1)/P of the bucket in 2 log2 P messages, and the first of
a pair a bucket more.

Neighbours in order exchange the largest halves. Where they share a node or a rack, little leaves it: with two racks of
two, each rack sends the bucket once to the other, where a ring sends 3/2 of it and `halving_doubling` twice the bucket.

In 16 bits an element is rounded at most ceil(log2 N) times while it is summed and once when the mean is sent: its error
is at most about ceil(log2 N) + 1 times that of one message (`wire`) of the largest partial sum.
"""

from collections import Counter

from autosync.layout.all_reduce import LaidOut
from autosync.layout.all_reduce.halving_doubling import halves_unevenly, halving_moves
from autosync.layout.all_reduce.hierarchical import nodes_share_replicas
from autosync.layout.moves import Moves
from autosync.layout.topology import Topology
from autosync.spec import ClusterSpec


def _moves(topology: Topology, elements: int, _: int) -> Moves:
    inner = 1 << (len(topology).bit_length() - 1)
    late = [(member, member - 1) for member in range(1, 2 * (len(topology) - inner), 2)]
    return halving_moves(len(topology), elements, late, [1 << k for k in range(inner.bit_length() - 1)])


def _some_are_nearer(cluster: ClusterSpec) -> bool:
    """Whether some of three or more replicas share a node, or a switch that not all have: they are nearer together."""
    nodes = {node.name for node in cluster.nodes}
    on_switch = Counter(link.target for link in cluster.links if link.source in nodes and link.target not in nodes)
    shares_one = len(on_switch) > 1 and max(on_switch.values()) > 1
    return len(cluster.replica_devices) > 2 and (shares_one or nodes_share_replicas(cluster))


LAID_OUT = LaidOut(_moves, differs=_some_are_nearer, uneven=halves_unevenly)
