"""Traffic of a sparse all-reduce: every replica sends its touched rows, with their numbers, to all others."""

from __future__ import annotations

from collections.abc import Sequence

from autosync.cost.exchange import Exchange, Stage, Transfer, Work
from autosync.cost.processes import Processes

__all__ = ["gathered_rows_exchange"]


def gathered_rows_exchange(replicas: Sequence[str], processes: Processes, slots: int) -> Exchange:
    """Every replica adds all replicas' rows and updates its own table: touched rows, or all when there are slots."""
    transfers = tuple(
        Transfer(source, target, payload=1.0, index=1.0, messages=2.0, gradients=1.0)
        for source in replicas
        for target in replicas
        if processes.apart(source, target)
    )
    count = float(len(replicas))
    work = tuple(
        Work(each, count, updated_touched=count) if slots == 0 else Work(each, count, updated_held=1.0 + slots)
        for each in replicas
    )
    return Exchange(push=(Stage(transfers),), work=work)
