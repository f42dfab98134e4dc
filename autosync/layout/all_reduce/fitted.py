"""An all-reduce fitted to the cluster's links: along trees that a linear program packs, in pieces.

Links that are unlike, racks behind thin uplinks and counts that are no power of two leave what any fixed pattern sends
far from what links can carry. Here each part of a bucket is summed along a tree into some node and its mean sent along
another, and which trees, with which shares and in how many pieces, follows from the rates, latencies and routes of the
cluster as it was probed (`layout/fitting`). Where a known algorithm is as good, it is that one.

In 16 bits an element is rounded as often as its tree is high, and once when the mean is sent: trees follow nodes,
racks and racks of racks, so that with two levels its error is at most about 4 times that of one message (`wire`) of the
largest partial sum; where it is a known algorithm, that one's holds.
"""

from __future__ import annotations

from autosync.layout.all_reduce import LaidOut, laid_out
from autosync.layout.exchange import Exchange
from autosync.layout.moves import Moves, exchange_of
from autosync.layout.topology import Topology
from autosync.spec import ClusterSpec


def _moves(topology: Topology, elements: int, item_bytes: int) -> Moves:
    from autosync.layout.fitting.schedule import fitted_to  # which asks this package for other algorithms

    return fitted_to(topology).moves(topology, elements, item_bytes)


def _exchange(topology: Topology, slots: int) -> Exchange:
    known = fitted_as(topology)
    return exchange_of(_moves, topology, slots) if known is None else laid_out(known).exchange(topology, slots)


def fitted_as(topology: Topology) -> str | None:
    """The known algorithm that is fitted to these replicas as well as any; None where none is."""
    from autosync.layout.fitting.schedule import fitted_to

    return fitted_to(topology).known


def _is_its_own(cluster: ClusterSpec) -> bool:
    return len(cluster.replica_devices) > 2 and fitted_as(Topology.of(cluster)) is None


def _is_uneven(cluster: ClusterSpec) -> bool:
    known = fitted_as(Topology.of(cluster))
    return known is None or laid_out(known).uneven(cluster)


LAID_OUT = LaidOut(_moves, _exchange, differs=_is_its_own, uneven=_is_uneven)
