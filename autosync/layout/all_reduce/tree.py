"""Traffic of a binomial-tree all-reduce of one bucket.

With replicas numbered in order, in round k = 0, 1, ... replica r with r mod 2^(k+1) = 2^k sends all it has added up to
r - 2^k. The first replica then has the sum, and its mean goes back the same way. Whole buckets travel: 2(N-1) in all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from autosync.layout.all_reduce import LaidOut
from autosync.layout.exchange import Exchange, Processes, Stage, Transfer, Work

__all__ = ["LAID_OUT", "tree_exchange"]


def tree_exchange(replicas: Sequence[str], processes: Processes, slots: int) -> Exchange:
    """A replica adds a bucket for each it receives; all update the whole with their `slots` optimizer slots."""
    rounds = [
        [(replicas[child], replicas[child - distance]) for child in range(distance, len(replicas), 2 * distance)]
        for distance in _distances(len(replicas))
    ]
    received = Counter(parent for pairs in rounds for _, parent in pairs)
    up = [_stage(pairs, processes) for pairs in rounds]
    down = [_stage([(parent, child) for child, parent in pairs], processes) for pairs in reversed(rounds)]
    work = tuple(Work(each, float(received[each]), updated_held=1.0 + slots) for each in replicas)
    return Exchange(push=(*up, *down), work=work)


def _distances(count: int) -> list[int]:
    return [1 << k for k in range((count - 1).bit_length())]


def _stage(pairs: Sequence[tuple[str, str]], processes: Processes) -> Stage:
    return Stage(
        tuple(
            Transfer(source, target, payload=1.0, gradients=1.0)
            for source, target in pairs
            if processes.apart(source, target)
        )
    )


LAID_OUT = LaidOut(tree_exchange, lambda cluster: len(cluster.replica_devices) > 2, uneven=lambda _: True)
