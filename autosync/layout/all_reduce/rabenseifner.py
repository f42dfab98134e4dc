"""Traffic of Rabenseifner's all-reduce: halved at doubling distances (Thakur, Rabenseifner and Gropp 2005).

P is the largest power of two of at most N replicas. Of the first 2(N-P), those at odd places send their bucket to the
one before them, and get the result at the end. The P that are left halve their sums at distances 1, 2, ...,
P/2, and double the mean the other way: 2(P-1)/P of the bucket leaves each of them in 2 log2 P messages, and one bucket
more the first of a pair.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from autosync.layout.all_reduce import LaidOut
from autosync.layout.all_reduce.halving_doubling import halves_unevenly, halving_exchange
from autosync.layout.all_reduce.hierarchical import nodes_share_replicas
from autosync.layout.exchange import Exchange, Processes
from autosync.spec import ClusterSpec

__all__ = ["LAID_OUT", "rabenseifner_exchange"]


def rabenseifner_exchange(replicas: Sequence[str], processes: Processes, slots: int) -> Exchange:
    """A replica adds what it receives on the way to its part; all update the whole with their `slots` slots."""
    count = 1 << (len(replicas).bit_length() - 1)
    late = [(replicas[number], replicas[number - 1]) for number in range(1, 2 * (len(replicas) - count), 2)]
    distances = [1 << k for k in range(count.bit_length() - 1)]
    return halving_exchange(replicas, late, distances, processes, slots)


def _some_are_nearer(cluster: ClusterSpec) -> bool:
    """Whether some of three or more replicas share a node, or a switch that not all have: they are nearer together."""
    nodes = {node.name for node in cluster.nodes}
    on_switch = Counter(link.target for link in cluster.links if link.source in nodes and link.target not in nodes)
    shares_one = len(on_switch) > 1 and max(on_switch.values()) > 1
    return len(cluster.replica_devices) > 2 and (shares_one or nodes_share_replicas(cluster))


LAID_OUT = LaidOut(closed_form=rabenseifner_exchange, differs=_some_are_nearer, uneven=halves_unevenly)
