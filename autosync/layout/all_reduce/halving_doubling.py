"""Traffic of an all-reduce by recursive halving and doubling (Thakur, Rabenseifner and Gropp 2005).

P is the largest power of two of at most N replicas. Those beyond the first P send their bucket to the replica P before
them, and get the result at the end. Among the P, in rounds of distance d = P/2, P/4, ..., 1, replica r exchanges with r
xor d half of what it still holds; then the distances are gone through the other way, and what a replica holds doubles.
2(P-1)/P of the bucket leaves each of the P in 2 log2 P messages, and one bucket more whoever takes one for another.
"""

from __future__ import annotations

from collections.abc import Sequence

from autosync.layout.all_reduce import LaidOut
from autosync.layout.all_reduce.halving import halves_unevenly, halving_exchange
from autosync.layout.exchange import Exchange, Processes

__all__ = ["LAID_OUT", "halving_doubling_exchange"]


def halving_doubling_exchange(replicas: Sequence[str], processes: Processes, slots: int) -> Exchange:
    """A replica adds what it receives on the way to its part; all update the whole with their `slots` slots."""
    count = 1 << (len(replicas).bit_length() - 1)
    late = [(replicas[number], replicas[number - count]) for number in range(count, len(replicas))]
    distances = [count >> k for k in range(1, count.bit_length())]
    return halving_exchange(replicas, late, distances, processes, slots)


LAID_OUT = LaidOut(halving_doubling_exchange, lambda cluster: len(cluster.replica_devices) > 2, halves_unevenly)
