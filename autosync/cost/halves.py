"""Traffic of recursive halving among a power of two of replicas, and of doubling again.

In a round of distance d, the replica at place r exchanges with that at r xor d half of what it still holds; doubling
goes through the same distances backwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from autosync.cost.exchange import Exchange, Stage, Transfer, Work
from autosync.cost.processes import Processes

__all__ = ["SEEN_AS", "halving_exchange"]

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
