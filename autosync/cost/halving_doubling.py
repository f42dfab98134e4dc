"""Traffic of an all-reduce by recursive halving and doubling (Thakur, Rabenseifner and Gropp 2005).

P is the largest power of two of at most N replicas. Those beyond the first P send their bucket to the replica P before
them, and get the result at the end. Among the P, in rounds of distance d = P/2, P/4, ..., 1, replica r exchanges with r
xor d half of what it still holds; then the distances are gone through the other way, and what a replica holds doubles.
2(P-1)/P of the bucket leaves each of the P in 2 log2 P messages.
"""

from __future__ import annotations

from collections.abc import Sequence

from autosync.cost.exchange import Exchange, Stage, Transfer, Work
from autosync.cost.processes import Processes

__all__ = ["halving_doubling_exchange"]


def halving_doubling_exchange(replicas: Sequence[str], processes: Processes, slots: int) -> Exchange:
    """A replica adds what it receives on the way to its part; all update the whole with their `slots` slots."""
    count = 1 << (len(replicas).bit_length() - 1)
    beyond = [(late, late - count) for late in range(count, len(replicas))]
    distances = [count >> k for k in range(1, count.bit_length())]

    def stage(pairs: Sequence[tuple[int, int]], payload: float) -> Stage:
        named = [(replicas[source], replicas[target]) for source, target in pairs]
        apart = [pair for pair in named if processes.apart(*pair)]
        return Stage(tuple(Transfer(*pair, payload=payload, gradients=1.0) for pair in apart))

    halving = [stage([(each, each ^ far) for each in range(count)], far / count) for far in distances]
    first = [stage(beyond, 1.0)] if beyond else []
    last = [stage([(target, source) for source, target in beyond], 1.0)] if beyond else []
    work = tuple(
        Work(
            replica,
            0.0 if number >= count else (count - 1) / count + (number + count < len(replicas)),
            updated_held=1.0 + slots,
        )
        for number, replica in enumerate(replicas)
    )
    return Exchange(push=(*first, *halving, *reversed(halving), *last), work=work)
