"""All-reduce by recursive halving and doubling (Thakur, Rabenseifner and Gropp 2005).

P is the largest power of two of at most N replicas. Those beyond the first P send their bucket to the replica P before
them, and get the result from it at the end. Among the P, in rounds of distance d = P/2, P/4, ..., 1, replica r and
r xor d exchange halves of what they still hold, the lower one keeping the first, and add; then the distances are gone
through the other way, and what a replica holds of the mean doubles. Each of the P sends 2(P-1)/P of the bucket in
2 log2 P messages.

In 16 bits an element is rounded at most ceil(log2 N) times while it is summed and once when the mean is sent: its error
is at most about ceil(log2 N) + 1 times that of one message (`wire`) of the largest partial sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autosync.engine.arrays import cut, scaled
from autosync.engine.sync.member import Member
from autosync.engine.sync.wire import Message, Wire, joined
from autosync.spec import shard_sizes

__all__ = ["halving_doubling_mean"]


def halving_doubling_mean(members: Sequence[Member], gradients: Sequence[Any], wire: Wire) -> list[list[Any]]:
    """The mean of one flat gradient a member, on every member."""
    count, devices = len(members), [member.device for member in members]
    if count == 1:
        return [[gradients[0]]]
    inner = 1 << (count.bit_length() - 1)
    sums: list[Any] = list(gradients[:inner])
    for late in range(inner, count):
        near = late - inner
        sums[near] = wire.added(gradients[late], devices[late], sums[near], devices[near])
    messages: list[Message | None] = []
    for device, part in zip(devices, _halved(devices[:inner], sums, wire), strict=False):
        messages.append(None if part is None else wire.message(scaled(part, 1.0 / count, device), device))
    messages = _doubled(devices[:inner], messages)
    messages += [messages[late - inner].at(devices[late]) for late in range(inner, count)]  # type: ignore[union-attr]
    return [[each.read(device)] for each, device in zip(messages, devices, strict=True)]  # type: ignore[union-attr]


def _halved(devices: Sequence[str], sums: Sequence[Any], wire: Wire) -> list[Any]:
    """For each of a power of two of replicas its own part of the sum; None where there are too few elements for it."""
    far, held = len(devices) // 2, list(sums)
    while far:
        halves = [_halves(part, device) for part, device in zip(held, devices, strict=True)]
        for replica, device in enumerate(devices):
            partner, upper = replica ^ far, bool(replica & far)
            own, sent = halves[replica][upper], halves[partner][upper]
            held[replica] = None if own is None else wire.added(sent, devices[partner], own, device)
        far //= 2
    return held


def _doubled(devices: Sequence[str], messages: Sequence[Message | None]) -> list[Message | None]:
    """Every replica's part on all replicas, end to end."""
    far, held = 1, list(messages)
    while far < len(devices):
        before = list(held)
        for replica, device in enumerate(devices):
            sent, own = before[replica ^ far], before[replica]
            arrived = None if sent is None else sent.at(device)
            pair = (arrived, own) if replica & far else (own, arrived)
            parts = [each for each in pair if each is not None]
            held[replica] = joined(parts, device) if parts else None
        far *= 2
    return held


def _halves(part: Any, device: str) -> tuple[Any, Any]:
    """Both halves of a flat tensor, the first being the longer one; None for an empty one."""
    if part is None:
        return None, None
    elements = int(part.shape[0])
    if elements == 1:
        return part, None
    first, second = cut(part, shard_sizes(elements, 2), device)
    return first, second
