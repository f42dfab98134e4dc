"""Traffic of a ring all-reduce of one bucket (Patarasuk and Yuan 2009).

N replicas, each sending to the next in replica order: N-1 chunks of 1/N in the reduce-scatter and N-1 in the
all-gather, so 2(N-1)/N of the bucket leaves every replica in 2(N-1) messages.
"""

from __future__ import annotations

from collections.abc import Sequence

from autosync.layout.all_reduce import LaidOut
from autosync.layout.exchange import Exchange, Processes, Stage, Transfer, Work

__all__ = ["LAID_OUT", "ring_exchange", "ring_stage"]


def ring_exchange(replicas: Sequence[str], processes: Processes, slots: int) -> Exchange:
    """Every replica adds N-1 chunks to its own and updates the whole bucket with its `slots` optimizer slots."""
    count = len(replicas)
    work = tuple(Work(replica, (count - 1) / count, updated_held=1.0 + slots) for replica in replicas)
    return Exchange(push=(ring_stage(replicas, processes),), work=work)


def ring_stage(members: Sequence[str], processes: Processes) -> Stage:
    """The traffic of a ring alone."""
    count = len(members)
    hops = 2 * (count - 1)
    neighbours = zip(members, (*members[1:], members[0]), strict=True)
    transfers = tuple(
        Transfer(source, target, payload=hops / count, messages=hops, gradients=hops)
        for source, target in neighbours
        if processes.apart(source, target)
    )
    return Stage(transfers, hops)


LAID_OUT = LaidOut(closed_form=ring_exchange)
