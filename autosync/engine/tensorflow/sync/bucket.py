"""All-reduced buckets: dense shards that are reduced together, and the flat arrays in which replicas hold them."""

from collections.abc import Sequence
from typing import Any, final

from autosync.engine.tensorflow.arrays import cut, end_to_end, unflatten
from autosync.engine.tensorflow.state import Scalars, ValueBlock
from autosync.engine.tensorflow.sync.compressed import bucket_exchange
from autosync.engine.tensorflow.sync.dense import flat_bucket
from autosync.engine.tensorflow.sync.exchange import BucketPlace
from autosync.engine.tensorflow.sync.topk_levels import TopKLevels
from autosync.engine.tensorflow.sync.update import Update


@final
class Bucket:
    """Dense shards that are reduced together, independently of all other shards."""

    def __init__(self, place: BucketPlace, levels: TopKLevels) -> None:
        self.shards = place.shards
        self.exchange = bucket_exchange(place, levels)
        self._place = place

    def flat(self, gradients: Sequence[Sequence[Any]]) -> list[list[Any]]:
        """Return the replicas' own gradients (`gradients[r][s]`, on their devices) in the form of means."""
        return [[gradient] for gradient in flat_bucket(self._place, gradients)]


@final
class Bundle:
    """Buckets that are updated together, end to end in one flat array on every replica.

    An update has the same overhead for any size, and every replica builds its ops, so small buckets share one update.
    The update waits for the last bucket.
    """

    def __init__(self, buckets: Sequence[Bucket], scalars: Sequence[Scalars], initial: Sequence[Any]) -> None:
        """`scalars` are the scalars on the replicas' devices; `initial[r]` has replica r's initial values, flat."""
        self.buckets = tuple(buckets)
        self.shards = tuple(shard for bucket in buckets for shard in bucket.shards)
        segments = scalars[0].optimizer.segments(self.shards)
        self.blocks = [ValueBlock(of, values, segments) for of, values in zip(scalars, initial, strict=True)]

    def begin(self) -> None:
        """Read the values at the start of a step. Call this while the step is traced, before `pull`."""
        for block in self.blocks:
            block.begin()

    def pull(self, replica: int, begun: bool = True) -> list[Any]:
        """Return every shard's value from the replica's own block: at `begin` if `begun`, else the present value."""
        block = self.blocks[replica]
        parts = cut(block.old_value if begun else block.read(), [shard.elements for shard in self.shards], block.device)
        return [unflatten(part, shard.shape, block.device) for shard, part in zip(self.shards, parts, strict=True)]

    def updates(self, means: Sequence[Sequence[Sequence[Any]]]) -> list[Update]:
        """Return an update for every replica's block. `means[b][r]` is bucket b's mean on replica r, in flat pieces."""
        of_replicas = [[piece for pieces in parts for piece in pieces] for parts in zip(*means, strict=True)]
        return [
            Update(block, end_to_end(pieces, block.device), counts=replica == 0)
            for replica, (block, pieces) in enumerate(zip(self.blocks, of_replicas, strict=True))
        ]

    def value_means(self) -> list[tuple[ValueBlock, Any]]:
        """Return every replica's block, with the mean of all replicas' values on the replica's device."""
        self.begin()
        values = [iter(self.pull(replica)) for replica in range(len(self.blocks))]
        means = [
            bucket.exchange.means([[next(of_replica) for _ in bucket.shards] for of_replica in values])
            for bucket in self.buckets
        ]
        return [
            (block, end_to_end([piece for pieces in parts for piece in pieces], block.device))
            for block, *parts in zip(self.blocks, *means, strict=True)
        ]
