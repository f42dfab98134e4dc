"""Direct exchange: reduce-scatter and all-gather in which every node sends directly to every other node.

Each node, or on one machine each replica, owns a share of a bucket. The other nodes send it their gradients of that
share; it adds them, and receives the means of the other shares: two rounds for any number of nodes. If links are
equally fast, shares are equal, and every node sends 2(N-1)/N of a bucket, as in a ring. If links differ, a linear
program sets the shares, down to zero. A node without a share sends the bucket once and receives the mean once. With
five nodes, one of them at a quarter of the others' rate, the slow link carries 1.6 buckets each way in a ring and one
bucket in a direct exchange. Such a bucket goes in pieces, so that some means arrive while other pieces are sent
(`fitting/pieces.py`); the number of pieces follows from the links (`fitting/schedule.py`).

If a node has several replicas, they send their bucket to one of them, a different one for each share, and receive the
mean from it. This is the direct algorithm of Thakur, Rabenseifner and Gropp (2005), and the "all pairs" of MSCCL, with
shares.

In 16 bits an element is rounded at most twice while it is summed, once if nodes have one replica, and once when the
mean is sent: its error is at most about 3 times that of one message (`wire`) of the largest partial sum.
"""

from __future__ import annotations

from autosync.layout.all_reduce import LaidOut, layout_of
from autosync.layout.moves import ELEMENTS, Moves
from autosync.layout.topology import Topology
from autosync.spec import ClusterSpec


def _moves(topology: Topology, elements: int, item_bytes: int) -> Moves:
    from autosync.layout.fitting.schedule import direct_on  # that module imports this package

    return direct_on(topology).moves(topology, elements, item_bytes)


def _shares_differ(cluster: ClusterSpec) -> bool:
    from autosync.layout.fitting.nested import nodes_of
    from autosync.layout.fitting.schedule import MOST_NODES, direct_on

    topology = Topology.of(cluster)
    sharing = len(nodes_of(topology))
    if sharing > MOST_NODES:  # no trees are packed, so shares are even, and a schedule would take long to compute
        return sharing < len(cluster.nodes)
    shares = {way.share for way in direct_on(topology).ways}
    return len(shares) > 1 or 1 / min(shares) < len(cluster.nodes) - 0.5


def _is_its_own(cluster: ClusterSpec) -> bool:
    """Whether direct exchange is about as fast as the best algorithm and differs from the others: by unequal shares, by
    pieces, or on one switch by fewer rounds."""
    from autosync.layout.fitting.schedule import direct_is_worth_it, direct_on

    topology = Topology.of(cluster)
    if len(topology) < 3 or not direct_is_worth_it(topology):
        return False
    if _shares_differ(cluster) or direct_on(topology).pieces > 1:
        return True
    blueconnect_moves = layout_of("blueconnect").moves
    assert blueconnect_moves is not None
    on_one_switch = not any(part.parts for part in topology.root.parts)
    return on_one_switch and len(blueconnect_moves(topology, ELEMENTS, 0).stages) > 2


LAID_OUT = LaidOut(_moves, differs=_is_its_own, uneven=_shares_differ)
