"""Ring all-reduce: reduce-scatter, then all-gather, between neighbours (Patarasuk and Yuan 2009).

N replicas cut a bucket of B bytes into N chunks. In each of N-1 steps every replica sends one chunk to the next one,
which adds its own; then each replica owns the sum of one chunk, and N-1 more steps hand the sums round. Every replica
sends 2(N-1)/N * B bytes. A chunk is summed on one replica and copied from there, so all replicas get the same bits.

In 16 bits an element is rounded N-1 times while it is summed and once when the mean is sent: its error is at most
about N times that of one message (`wire`) of the largest partial sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autosync.engine.sync.member import Member
from autosync.engine.sync.wire import Message, Wire, joined
from autosync.spec import shard_sizes

__all__ = ["ring_mean", "ring_messages"]


def ring_mean(members: Sequence[Member], gradients: Sequence[Any], wire: Wire) -> list[list[Any]]:
    """The mean of one flat gradient a member, on every member."""
    if len(members) == 1:
        return [[gradients[0]]]
    devices = [member.device for member in members]
    messages = ring_messages(devices, gradients, 1.0 / len(members), wire)
    return [[message.read(device)] for message, device in zip(messages, devices, strict=True)]


def ring_messages(devices: Sequence[str], gradients: Sequence[Any], factor: float, wire: Wire) -> list[Message]:
    """The sum of two or more flat gradients, one a device, times `factor`, as it has come round to every device."""
    import tensorflow as tf

    count, elements = len(devices), int(gradients[0].shape[0])
    sizes = list(shard_sizes(elements, min(count, elements)))
    sizes += [0] * (count - len(sizes))
    chunks = []
    for device, gradient in zip(devices, gradients, strict=True):
        with tf.device(device):
            chunks.append(tf.split(gradient, sizes))
    filled = [chunk for chunk in range(count) if sizes[chunk]]
    for step in range(count - 1):
        for chunk in filled:
            sender, receiver = (chunk + step) % count, (chunk + step + 1) % count
            chunks[receiver][chunk] = wire.added(
                chunks[sender][chunk], devices[sender], chunks[receiver][chunk], devices[receiver]
            )
    held: list[dict[int, Message]] = [{} for _ in devices]
    for chunk in filled:
        owner = (chunk - 1) % count
        with tf.device(devices[owner]):
            held[owner][chunk] = wire.message(chunks[owner][chunk] * factor, devices[owner])
    for step in range(count - 1):
        for chunk in filled:
            sender, receiver = (chunk - 1 + step) % count, (chunk + step) % count
            held[receiver][chunk] = held[sender][chunk].at(devices[receiver])
    return [joined([each[chunk] for chunk in filled], device) for each, device in zip(held, devices, strict=True)]
