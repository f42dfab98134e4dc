"""Ring all-reduce: reduce-scatter, then all-gather, between neighbours (Patarasuk and Yuan 2009).

N replicas cut a bucket of B bytes into N chunks. In each of N-1 steps every replica sends one chunk to the next one,
which adds its own; then each replica owns the sum of one chunk, and N-1 more steps hand the sums round. Every replica
sends 2(N-1)/N * B bytes. A chunk is summed on one replica and copied from there, so all replicas get the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from autosync.engine.layout import Shard
from autosync.engine.state import Block, Scalars
from autosync.spec import shard_sizes

__all__ = ["RingBucket", "ring_mean"]


def ring_mean(devices: Sequence[str], gradients: Sequence[Any]) -> list[list[Any]]:
    """The mean of one flat gradient a device, on every device, in chunks (to be concatenated)."""
    import tensorflow as tf

    count = len(devices)
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
                with tf.device(devices[receiver]):
                    chunks[receiver][chunk] = chunks[sender][chunk] + chunks[receiver][chunk]
    for owner in range(count):
        chunk = (owner + 1) % count
        with tf.device(devices[owner]):
            chunks[owner][chunk] = chunks[owner][chunk] * (1.0 / count)
    for step in range(count - 1):
        for sender in range(count):
            receiver, chunk = (sender + 1) % count, (sender + 1 - step) % count
            if sizes[chunk]:
                with tf.device(devices[receiver]):
                    chunks[receiver][chunk] = tf.identity(chunks[sender][chunk])
    return [[chunk for chunk, size in zip(each, sizes, strict=True) if size] for each in chunks]


@final
class RingBucket:
    """Dense shards that every replica holds side by side in one flat array, reduced and updated together."""

    def __init__(self, shards: Sequence[Shard], scalars: Sequence[Scalars], initial: Sequence[Sequence[Any]]) -> None:
        """`scalars` are those of the replicas' devices; `initial[r][s]` is shard s as it starts on replica r."""
        import tensorflow as tf

        self.shards = tuple(shards)
        self.blocks = []
        for each, values in zip(scalars, initial, strict=True):
            with tf.device(each.device):
                self.blocks.append(Block(each, tf.concat([tf.reshape(value, [-1]) for value in values], 0)))

    def pull(self) -> list[list[Any]]:
        """For every replica the value of every shard, read from its own block."""
        import tensorflow as tf

        pulled = []
        for block in self.blocks:
            with tf.device(block.device):
                parts = tf.split(block.read(), [shard.elements for shard in self.shards])
                pulled.append([tf.reshape(part, shard.shape) for shard, part in zip(self.shards, parts, strict=True)])
        return pulled

    def push(self, gradients: Sequence[Sequence[Any]]) -> None:
        """All-reduce the replicas' shard gradients (`gradients[r][s]`) and update every replica's block."""
        import tensorflow as tf

        devices = [block.device for block in self.blocks]
        flat = []
        for device, parts in zip(devices, gradients, strict=True):
            with tf.device(device):
                pieces = [tf.reshape(part, [-1]) for part in parts]
                flat.append(tf.concat(pieces, 0) if len(pieces) > 1 else pieces[0])
        for block, chunks in zip(self.blocks, ring_mean(devices, flat), strict=True):
            with tf.device(block.device):
                block.apply(tf.concat(chunks, 0) if len(chunks) > 1 else chunks[0])
