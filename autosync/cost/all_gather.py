"""Traffic of parts that every replica sends to all others: compressed gradients that cannot be added on the way."""

from __future__ import annotations

from collections.abc import Sequence

from autosync.cost.exchange import Exchange, Stage, Transfer, Work
from autosync.cost.processes import Processes

__all__ = ["all_gather_exchange"]


def all_gather_exchange(replicas: Sequence[str], processes: Processes, slots: int) -> Exchange:
    """Every replica adds all replicas' parts and updates its whole values with its `slots` optimizer slots."""
    transfers = tuple(
        Transfer(source, target, payload=1.0)
        for source in replicas
        for target in replicas
        if processes.apart(source, target)
    )
    work = tuple(Work(each, float(len(replicas)), updated_held=1.0 + slots) for each in replicas)
    return Exchange(push=(Stage(transfers),), work=work)
