"""Buckets of gradients in the order they become ready, closed by bytes or by count."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from typing import TypeAlias

from autosync.baselines.decisions import Cuts, shard_bytes
from autosync.spec import AllReduce, Synchronizer, Variable

__all__ = ["MEGABYTE", "Full", "bucketed"]

MEGABYTE = 1 << 20
"""PyTorch and Horovod count bucket sizes in units of 1 048 576 bytes."""

Full: TypeAlias = Callable[[int, list[int], int], bool]
"""(index of the bucket among those of its dtype, bytes of its shards, bytes of the next shard) -> start a new one?"""


def bucketed(variables: Iterable[Variable], full: Full, cuts: Cuts | None = None) -> dict[str, list[Synchronizer]]:
    """An all-reduce group for every shard of `variables`, which are given in ready order.

    Each dtype fills buckets of its own, and a sparse variable has a group to itself: its rows are gathered, not added.
    """
    groups = count()
    opened: dict[str, list[tuple[int, list[int]]]] = {}
    reduced: dict[str, list[Synchronizer]] = {}
    for variable in variables:
        sizes = shard_bytes(variable, (cuts or {}).get(variable.name))
        if variable.sparse:
            group = next(groups)
            reduced[variable.name] = [AllReduce(group) for _ in sizes]
            continue
        buckets = opened.setdefault(variable.dtype, [])
        reduced[variable.name] = []
        for size in sizes:
            if not buckets or full(len(buckets) - 1, buckets[-1][1], size):
                buckets.append((next(groups), []))
            buckets[-1][1].append(size)
            reduced[variable.name].append(AllReduce(buckets[-1][0]))
    return reduced
