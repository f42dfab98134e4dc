"""An all-reduce fitted to the cluster's links: along trees that a linear program packs, in pieces.

With unequal links, racks behind thin uplinks, or node counts other than powers of two, a fixed pattern uses far less
than the capacity of the links. Here each part of a bucket is summed along a tree into some node, and its mean is sent
along another tree. The trees, their shares and the number of pieces follow from the cluster's rates, latencies and
routes as probed (`layout/fitting`). If a known algorithm is as fast, the fitted all-reduce is that algorithm.

In 16 bits an element is rounded as often as its tree is high, and once when the mean is sent. Trees follow nodes, racks
and racks of racks, so that with two levels the error is at most about 4 times that of one message (`wire`) of the
largest partial sum. If the fitted all-reduce is a known algorithm, that algorithm's bound holds.
"""

from __future__ import annotations

from autosync.layout.all_reduce import LaidOut, layout_of
from autosync.layout.exchange import Exchange
from autosync.layout.moves import Moves, exchange_of
from autosync.layout.topology import Topology
from autosync.spec import ClusterSpec


def _moves(topology: Topology, elements: int, item_bytes: int) -> Moves:
    from autosync.layout.fitting.schedule import best_schedule  # that module imports this package

    return best_schedule(topology).moves(topology, elements, item_bytes)


def _exchange(topology: Topology, slots: int) -> Exchange:
    known = equivalent_algorithm(topology)
    return exchange_of(_moves, topology, slots) if known is None else layout_of(known).exchange(topology, slots)


def equivalent_algorithm(topology: Topology) -> str | None:
    """The known algorithm that is the best schedule for these replicas; None if trees or pieces are better."""
    from autosync.layout.fitting.schedule import best_schedule

    return best_schedule(topology).known


def _is_its_own(cluster: ClusterSpec) -> bool:
    return len(cluster.replica_devices) > 2 and equivalent_algorithm(Topology.of(cluster)) is None


def _is_uneven(cluster: ClusterSpec) -> bool:
    known = equivalent_algorithm(Topology.of(cluster))
    return known is None or layout_of(known).uneven(cluster)


LAID_OUT = LaidOut(_moves, _exchange, differs=_is_its_own, uneven=_is_uneven)
