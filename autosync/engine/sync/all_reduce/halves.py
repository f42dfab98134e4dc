"""Recursive halving of a flat tensor among a power of two of replicas, and doubling it again.

In a round of distance d, replica r and r xor d exchange halves of what they still hold, and each adds what comes to the
half that it keeps, the lower replica the first one; so in the end each holds its own part of the sum. Doubling goes
through the same distances backwards, and what a replica holds doubles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autosync.engine.arrays import cut, scaled
from autosync.engine.sync.wire import Message, Wire, joined
from autosync.spec import shard_sizes

__all__ = ["halved_and_doubled"]


def halved_and_doubled(
    devices: Sequence[str], gradients: Sequence[Any], factor: float, distances: Sequence[int], wire: Wire
) -> list[Message]:
    """The sum of one flat gradient a device, times `factor`, on each device.

    Halved at `distances`, which are the powers of two below the number of devices in some order.
    """
    messages = []
    for device, part in zip(devices, _halved(devices, gradients, distances, wire), strict=True):
        messages.append(None if part is None else wire.message(scaled(part, factor, device), device))
    return _doubled(devices, messages, distances[::-1])


def _halved(devices: Sequence[str], sums: Sequence[Any], distances: Sequence[int], wire: Wire) -> list[Any]:
    """Each replica's own part of the sum; None where there are too few elements for it."""
    held = list(sums)
    for far in distances:
        halves = [_halves(part, device) for part, device in zip(held, devices, strict=True)]
        for replica, device in enumerate(devices):
            partner, upper = replica ^ far, bool(replica & far)
            own, sent = halves[replica][upper], halves[partner][upper]
            held[replica] = None if own is None else wire.added(sent, devices[partner], own, device)
    return held


def _doubled(devices: Sequence[str], messages: Sequence[Message | None], distances: Sequence[int]) -> list[Message]:
    """Every replica's part on all replicas, end to end."""
    held = list(messages)
    for far in distances:
        before = list(held)
        for replica, device in enumerate(devices):
            sent, own = before[replica ^ far], before[replica]
            arrived = None if sent is None else sent.at(device)
            pair = (arrived, own) if replica & far else (own, arrived)
            parts = [each for each in pair if each is not None]
            held[replica] = joined(parts, device) if parts else None
    assert all(each is not None for each in held)  # no gradient is empty, so some replica had a part
    return held  # type: ignore[return-value]


def _halves(part: Any, device: str) -> tuple[Any, Any]:
    """Both halves of a flat tensor, the first being the longer one; None for an empty one."""
    if part is None:
        return None, None
    elements = int(part.shape[0])
    if elements == 1:
        return part, None
    first, second = cut(part, shard_sizes(elements, 2), device)
    return first, second
