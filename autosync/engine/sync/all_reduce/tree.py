"""Tree all-reduce: a binomial reduce to the first replica, then a binomial broadcast of the mean.

In round k = 0, 1, ... replica r with r mod 2^(k+1) = 2^k sends all it has added up to r - 2^k. The first replica then
has the sum; its mean goes back the same way, from the farthest on. Whole buckets travel, 2(N-1) in 2 ceil(log2 N)
rounds.

In 16 bits an element is rounded at most ceil(log2 N) times on its way to the first replica, and once when the mean is
sent: its error is at most about ceil(log2 N) + 1 times that of one message (`wire`) of the largest partial sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autosync.engine.arrays import scaled
from autosync.engine.sync.member import Member
from autosync.engine.sync.wire import Wire

__all__ = ["tree_mean"]


def tree_mean(members: Sequence[Member], gradients: Sequence[Any], wire: Wire) -> list[list[Any]]:
    """The mean of one flat gradient a member, on every member."""
    count, devices = len(members), [member.device for member in members]
    if count == 1:
        return [[gradients[0]]]
    sums, edges = list(gradients), _edges(count)
    for child, parent in edges:
        sums[parent] = wire.added(sums[child], devices[child], sums[parent], devices[parent])
    messages = {0: wire.message(scaled(sums[0], 1.0 / count, devices[0]), devices[0])}
    for child, parent in reversed(edges):
        messages[child] = messages[parent].at(devices[child])
    return [[messages[number].read(device)] for number, device in enumerate(devices)]


def _edges(count: int) -> list[tuple[int, int]]:
    """(child, parent), round by round towards the first."""
    distances = [1 << k for k in range((count - 1).bit_length())]
    return [(child, child - far) for far in distances for child in range(far, count, 2 * far)]
