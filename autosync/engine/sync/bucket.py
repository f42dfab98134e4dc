"""All-reduced buckets: dense shards that every replica holds side by side in one flat array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from autosync.engine.state import Block, Scalars
from autosync.engine.sync.compressed import bucket_exchange
from autosync.engine.sync.exchange import BucketPlace
from autosync.engine.sync.update import Update

__all__ = ["Bucket"]


@final
class Bucket:
    """Dense shards reduced and updated together, on every replica."""

    def __init__(self, place: BucketPlace, scalars: Sequence[Scalars], initial: Sequence[Sequence[Any]]) -> None:
        """`scalars` are those of the replicas' devices; `initial[r][s]` is shard s as it starts on replica r."""
        import tensorflow as tf

        self.shards = place.shards
        self.exchange = bucket_exchange(place)
        self.blocks = []
        for each, values in zip(scalars, initial, strict=True):
            with tf.device(each.device):
                self.blocks.append(Block(each, tf.concat([tf.reshape(value, [-1]) for value in values], 0)))

    def pull(self, replica: int) -> list[Any]:
        """The value of every shard, read from the replica's own block."""
        import tensorflow as tf

        block = self.blocks[replica]
        with tf.device(block.device):
            parts = [block.read()]
            if len(self.shards) > 1:
                parts = tf.split(parts[0], [shard.elements for shard in self.shards])
            return [_shaped(part, shard.shape) for shard, part in zip(self.shards, parts, strict=True)]

    def push(self, gradients: Sequence[Sequence[Any]]) -> list[Update]:
        """All-reduce the replicas' shard gradients (`gradients[r][s]`); an update for every replica's block."""
        means = self.exchange.means(gradients)
        return [
            Update(block, mean, counts=replica == 0)
            for replica, (block, mean) in enumerate(zip(self.blocks, means, strict=True))
        ]


def _shaped(part: Any, shape: tuple[int, ...]) -> Any:
    """A flat tensor in `shape`; without an op where it is flat: a step has hundreds, and each takes time to trace."""
    import tensorflow as tf

    return part if len(shape) == 1 else tf.reshape(part, shape)
