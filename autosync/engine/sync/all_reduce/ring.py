"""Ring all-reduce: reduce-scatter, then all-gather, between neighbours (Patarasuk and Yuan 2009).

N replicas cut a bucket of B bytes into N chunks. In each of N-1 steps every replica sends one chunk to the next one,
which adds its own; then each replica owns the sum of one chunk, and N-1 more steps hand the sums round. Every replica
sends 2(N-1)/N * B bytes. A chunk is summed on one replica and copied from there, so all replicas get the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autosync.engine.sync.member import Member
from autosync.engine.sync.wire import Wire
from autosync.spec import shard_sizes

__all__ = ["ring_mean"]


def ring_mean(members: Sequence[Member], gradients: Sequence[Any], wire: Wire) -> list[list[Any]]:
    """The mean of one flat gradient a member, on every member, in chunks."""
    import tensorflow as tf

    count = len(members)
    devices = [member.device for member in members]
    elements = int(gradients[0].shape[0])
    if count == 1:
        return [[gradients[0]]]
    sizes = list(shard_sizes(elements, min(count, elements)))
    sizes += [0] * (count - len(sizes))
    chunks = []
    for device, gradient in zip(devices, gradients, strict=True):
        with tf.device(device):
            chunks.append(tf.split(gradient, sizes))
    for step in range(count - 1):
        for sender in range(count):
            receiver, chunk = (sender + 1) % count, (sender - step) % count
            if sizes[chunk]:
                arrived = wire.over(chunks[sender][chunk], devices[sender], devices[receiver])
                with tf.device(devices[receiver]):
                    chunks[receiver][chunk] = arrived + chunks[receiver][chunk]
    for owner in range(count):
        chunk = (owner + 1) % count
        with tf.device(devices[owner]):
            mean = chunks[owner][chunk] * (1.0 / count)
            chunks[owner][chunk] = wire.settled(mean, devices[owner])
    for step in range(count - 1):
        for sender in range(count):
            receiver, chunk = (sender + 1) % count, (sender + 1 - step) % count
            if sizes[chunk]:
                chunks[receiver][chunk] = wire.over(chunks[sender][chunk], devices[sender], devices[receiver])
    return [[chunk for chunk, size in zip(each, sizes, strict=True) if size] for each in chunks]
