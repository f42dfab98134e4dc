"""Recursive halving of a flat tensor among a power of two of replicas, and doubling it again.

In a round of distance d, replica r and r xor d exchange halves of what they still hold, and each adds what comes to the
half that it keeps, the lower replica the first one; so in the end each holds its own part of the sum. Doubling goes
through the same distances backwards, and what a replica holds doubles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autosync.engine.arrays import cut, scaled
from autosync.engine.sync.member import Member
from autosync.engine.sync.wire import Message, Wire, joined
from autosync.spec import shard_sizes

__all__ = ["halving_mean"]


def halving_mean(
    members: Sequence[Member],
    gradients: Sequence[Any],
    late: Sequence[tuple[int, int]],
    distances: Sequence[int],
    wire: Wire,
) -> list[list[Any]]:
    """The mean of one flat gradient a member, on every member.

    Gradients are halved at `distances`, the powers of two below P in some order, among the P members that are not the
    first of a pair of `late`. Those send their bucket to the second one of their pair before, and get the result from
    it at the end.
    """
    count, devices, sums = len(members), [member.device for member in members], list(gradients)
    if count == 1:
        return [[gradients[0]]]
    for source, target in late:
        sums[target] = wire.added(sums[source], devices[source], sums[target], devices[target])
    sent = {source for source, _ in late}
    inner = [number for number in range(count) if number not in sent]
    at_inner = [devices[number] for number in inner]
    own: list[Message | None] = []
    for device, part in zip(at_inner, _halved(at_inner, [sums[each] for each in inner], distances, wire), strict=True):
        own.append(None if part is None else wire.message(scaled(part, 1.0 / count, device), device))
    messages = dict(zip(inner, _doubled(at_inner, own, distances[::-1]), strict=True))
    for source, target in late:
        messages[source] = messages[target].at(devices[source])
    return [[messages[number].read(device)] for number, device in enumerate(devices)]


def _halved(devices: Sequence[str], sums: Sequence[Any], distances: Sequence[int], wire: Wire) -> list[Any]:
    """Add up by halves, and return each replica's own part of the sum; None where there are too few elements."""
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
    """Cut a flat tensor into halves, of which the first may be longer by one element; an empty half is None."""
    if part is None:
        return None, None
    elements = int(part.shape[0])
    if elements == 1:
        return part, None
    first, second = cut(part, shard_sizes(elements, 2), device)
    return first, second
