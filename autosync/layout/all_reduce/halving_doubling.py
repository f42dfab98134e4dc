"""Traffic of an all-reduce by recursive halving and doubling (Thakur, Rabenseifner and Gropp 2005).

P is the largest power of two of at most N replicas. Those beyond the first P send their bucket to the replica P before
them, and get the result at the end. Among the P, in rounds of distance d = P/2, P/4, ..., 1, replica r exchanges with r
xor d half of what it still holds; then the distances are gone through the other way, and what a replica holds doubles.
2(P-1)/P of the bucket leaves each of the P in 2 log2 P messages, and one bucket more whoever takes one for another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from autosync.layout.all_reduce import LaidOut
from autosync.layout.exchange import Exchange, Processes, Stage, Transfer, Work
from autosync.spec import ClusterSpec

__all__ = ["LAID_OUT", "halves_unevenly", "halving_doubling_exchange", "halving_exchange"]


def halving_doubling_exchange(replicas: Sequence[str], processes: Processes, slots: int) -> Exchange:
    """A replica adds what it receives on the way to its part; all update the whole with their `slots` slots."""
    count = 1 << (len(replicas).bit_length() - 1)
    late = [(replicas[number], replicas[number - count]) for number in range(count, len(replicas))]
    distances = [count >> k for k in range(1, count.bit_length())]
    return halving_exchange(replicas, late, distances, processes, slots)


def halving_exchange(
    replicas: Sequence[str],
    late: Sequence[tuple[str, str]],
    distances: Sequence[int],
    processes: Processes,
    slots: int,
) -> Exchange:
    """Halving at `distances` among the replicas that are not the first of a pair of `late`.

    Those send their bucket to the second one of their pair before, and get the result from it at the end. A replica
    adds what it receives on the way to its part; all update the whole with their `slots` slots.
    """

    def stage(pairs: Iterable[tuple[str, str]], payload: float) -> Stage:
        apart = [pair for pair in pairs if processes.apart(*pair)]
        return Stage(tuple(Transfer(*pair, payload=payload, gradients=1.0) for pair in apart))

    sent = {source for source, _ in late}
    inner = [replica for replica in replicas if replica not in sent]
    halving = [
        stage([(replica, inner[place ^ far]) for place, replica in enumerate(inner)], 0.5 ** (turn + 1))
        for turn, far in enumerate(distances)
    ]
    first = [stage(late, 1.0)] if late else []
    last = [stage([(target, source) for source, target in late], 1.0)] if late else []
    added = dict.fromkeys(inner, (len(inner) - 1) / len(inner))
    for _, target in late:
        added[target] += 1.0
    work = tuple(Work(replica, added.get(replica, 0.0), updated_held=1.0 + slots) for replica in replicas)
    return Exchange(push=(*first, *halving, *reversed(halving), *last), work=work)


def halves_unevenly(cluster: ClusterSpec) -> bool:
    """Unless replicas are a power of two, as many on each node, and nodes as many on each switch that has some."""
    nodes = Counter(device.node for device in cluster.replica_devices)
    links = cluster.links
    switches = Counter(link.target for link in links if link.source in nodes and link.target not in nodes)
    replicas = nodes.total()
    return replicas & (replicas - 1) != 0 or any(len(set(each.values())) > 1 for each in (nodes, switches))


LAID_OUT = LaidOut(
    closed_form=halving_doubling_exchange,
    differs=lambda cluster: len(cluster.replica_devices) > 2,
    uneven=halves_unevenly,
)
