"""Direct exchange: reduce-scatter and all-gather in which each node sends to each other one itself.

Each node, or on one machine each replica, has a share of a bucket. The others send it theirs of that share, which it
adds up, and gets the mean of theirs from them: two rounds, however many nodes there are. Where links are alike so are
shares, and all send 2(N-1)/N of a bucket, as in a ring. Where they are not, shares are those of a linear program, down
to none. A node without a share sends the bucket once and gets the mean once: of five nodes with one at a quarter of the
others' rate, a ring has 1.6 buckets each way on the slow link, this one. A bucket then goes in pieces, so that means of
some come while others are sent (`fitting/pieces.py`); into how many follows from the links (`fitting/schedule.py`).

A node's other replicas send their bucket to one of them, a share each in turn, and get the mean from it. This is the
direct algorithm of Thakur, Rabenseifner and Gropp (2005), and the "all pairs" of MSCCL, with shares.

In 16 bits an element is rounded at most twice while it is summed, once if nodes have one replica, and once when the
mean is sent: its error is at most about 3 times that of one message (`wire`) of the largest partial sum.
"""

from __future__ import annotations

from autosync.layout.all_reduce import LaidOut, laid_out
from autosync.layout.moves import ELEMENTS, Moves
from autosync.layout.topology import Topology
from autosync.spec import ClusterSpec


def _moves(topology: Topology, elements: int, item_bytes: int) -> Moves:
    from autosync.layout.fitting.schedule import direct_on  # which asks this package for other algorithms

    return direct_on(topology).moves(topology, elements, item_bytes)


def _shares_differ(cluster: ClusterSpec) -> bool:
    from autosync.layout.fitting.nested import nodes_of
    from autosync.layout.fitting.schedule import MOST_NODES, direct_on

    topology = Topology.of(cluster)
    sharing = len(nodes_of(topology))
    if sharing > MOST_NODES:  # no trees are packed, so shares are even; to make and judge them takes long
        return sharing < len(cluster.nodes)
    shares = {way.share for way in direct_on(topology).ways}
    return len(shares) > 1 or 1 / min(shares) < len(cluster.nodes) - 0.5


def _is_its_own(cluster: ClusterSpec) -> bool:
    """Whether it is about as good as any, and goes in shares or pieces; or on one switch all at once."""
    from autosync.layout.fitting.schedule import direct_is_worth_it, direct_on

    topology = Topology.of(cluster)
    if len(topology) < 3 or not direct_is_worth_it(topology):
        return False
    if _shares_differ(cluster) or direct_on(topology).pieces > 1:
        return True
    others = laid_out("blueconnect").moves
    assert others is not None
    return not any(part.parts for part in topology.root.parts) and len(others(topology, ELEMENTS, 0).stages) > 2


LAID_OUT = LaidOut(_moves, differs=_is_its_own, uneven=_shares_differ)
