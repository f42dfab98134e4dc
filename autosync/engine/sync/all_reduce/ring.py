"""Ring all-reduce: reduce-scatter, then all-gather, between neighbours (Patarasuk and Yuan 2009).

N replicas cut a bucket of B bytes into N chunks. In each of N-1 steps every replica sends one chunk to the next one,
which adds its own; then each replica owns the sum of one chunk, and N-1 more steps hand the sums round. Every replica
sends 2(N-1)/N * B bytes. A chunk is summed on one replica and copied from there, so all replicas get the same bits.

A large chunk goes round in pieces, each as soon as it can: while one is being added, others are on the link.

In 16 bits an element is rounded N-1 times while it is summed and once when the mean is sent: its error is at most
about N times that of one message (`wire`) of the largest partial sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autosync.engine.arrays import cut, scaled
from autosync.engine.sync.member import Member
from autosync.engine.sync.wire import Message, Wire, read
from autosync.spec import shard_sizes
from autosync.spec.ring import ring_pieces

__all__ = ["ring_mean", "ring_messages"]


def ring_mean(members: Sequence[Member], gradients: Sequence[Any], wire: Wire) -> list[list[Any]]:
    """The mean of one flat gradient a member, on every member."""
    if len(members) == 1:
        return [[gradients[0]]]
    devices = [member.device for member in members]
    arrived = ring_messages(devices, gradients, 1.0 / len(members), wire)
    return [read(messages, device) for messages, device in zip(arrived, devices, strict=True)]


def ring_messages(devices: Sequence[str], gradients: Sequence[Any], factor: float, wire: Wire) -> list[list[Message]]:
    """The sum of two or more flat gradients, one a device, times `factor`: the pieces that have come round to each."""
    count = len(devices)
    pieces = _pieces(int(gradients[0].shape[0]), gradients[0].dtype.size, count)
    sizes = [size for _, size in pieces]
    sums = [cut(gradient, sizes, device) for device, gradient in zip(devices, gradients, strict=True)]
    for step in range(count - 1):
        for piece, (chunk, _) in enumerate(pieces):
            sender, receiver = (chunk + step) % count, (chunk + step + 1) % count
            sums[receiver][piece] = wire.added(
                sums[sender][piece], devices[sender], sums[receiver][piece], devices[receiver]
            )
    held: list[dict[int, Message]] = [{} for _ in devices]
    for piece, (chunk, _) in enumerate(pieces):
        owner = (chunk - 1) % count
        mean = scaled(sums[owner][piece], factor, devices[owner])
        held[owner][piece] = wire.message(mean, devices[owner])
    for step in range(count - 1):
        for piece, (chunk, _) in enumerate(pieces):
            sender, receiver = (chunk - 1 + step) % count, (chunk + step) % count
            is_last = step == count - 2  # and only reads it
            message = held[sender][piece]
            held[receiver][piece] = message if is_last else message.at(devices[receiver])
    return [[each[piece] for piece in range(len(pieces))] for each in held]


def _pieces(elements: int, element_bytes: int, count: int) -> list[tuple[int, int]]:
    """(chunk, elements) of every piece, in the order of the array; short arrays have fewer than `count` chunks."""
    found = []
    for chunk, size in enumerate(shard_sizes(elements, min(count, elements))):
        found += [(chunk, piece) for piece in shard_sizes(size, ring_pieces(size * element_bytes))]
    return found
