"""Traffic of recursive halving among a power of two of replicas, and of doubling again.

In a round of distance d, the replica at place r exchanges with that at r xor d half of what it still holds; doubling
goes through the same distances backwards.

Traffic of an all-reduce by recursive halving and doubling (Thakur, Rabenseifner and Gropp 2005).

P is the largest power of two of at most N replicas. Those beyond the first P send their bucket to the replica P before
them, and get the result at the end. Among the P, in rounds of distance d = P/2, P/4, ..., 1, replica r exchanges with r
xor d half of what it still holds; then the distances are gone through the other way, and what a replica holds doubles.
2(P-1)/P of the bucket leaves each of the P in 2 log2 P messages, and one bucket more whoever takes one for another.

Traffic of Rabenseifner's all-reduce: halved at doubling distances (Thakur, Rabenseifner and Gropp 2005).

P is the largest power of two of at most N replicas. Of the first 2(N-P), those at odd places send their bucket to the
one before them, and get the result at the end. The P that are left halve their sums (`halves`) at distances 1, 2, ...,
P/2, and double the mean the other way: 2(P-1)/P of the bucket leaves each of them in 2 log2 P messages, and one bucket
more the first of a pair.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from autosync.layout.exchange import Exchange, Processes, Stage, Transfer, Work

__all__ = ["SEEN_AS", "halving_doubling_exchange", "halving_exchange", "rabenseifner_exchange"]

SEEN_AS = {"rabenseifner": "halving_doubling"}
"""Algorithms that learned simulators are told of in others' place, since they send as much in as many messages.

Which links these cross differs; that is in the figures of links, and in what the base simulator predicts.
"""


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


def halving_doubling_exchange(replicas: Sequence[str], processes: Processes, slots: int) -> Exchange:
    """A replica adds what it receives on the way to its part; all update the whole with their `slots` slots."""
    count = 1 << (len(replicas).bit_length() - 1)
    late = [(replicas[number], replicas[number - count]) for number in range(count, len(replicas))]
    distances = [count >> k for k in range(1, count.bit_length())]
    return halving_exchange(replicas, late, distances, processes, slots)


def rabenseifner_exchange(replicas: Sequence[str], processes: Processes, slots: int) -> Exchange:
    """A replica adds what it receives on the way to its part; all update the whole with their `slots` slots."""
    count = 1 << (len(replicas).bit_length() - 1)
    late = [(replicas[number], replicas[number - 1]) for number in range(1, 2 * (len(replicas) - count), 2)]
    distances = [1 << k for k in range(count.bit_length() - 1)]
    return halving_exchange(replicas, late, distances, processes, slots)
