"""All-reduced buckets: dense shards reduced together, and the flat arrays that replicas hold them in."""

from collections.abc import Sequence
from typing import Any, final

from autosync.engine.arrays import cut, end_to_end, shaped
from autosync.engine.state import Block, Scalars
from autosync.engine.sync.compressed import bucket_exchange
from autosync.engine.sync.exchange import BucketPlace
from autosync.engine.sync.ladder import Ladder
from autosync.engine.sync.update import Update
from autosync.engine.sync.whole import flat_bucket


@final
class Bucket:
    """Dense shards reduced together, apart from all others."""

    def __init__(self, place: BucketPlace, ladder: Ladder) -> None:
        self.shards = place.shards
        self.exchange = bucket_exchange(place, ladder)
        self._place = place

    def flat(self, gradients: Sequence[Sequence[Any]]) -> list[list[Any]]:
        """Every replica's own gradients (`gradients[r][s]`, on its device) in the form of the exchange's means."""
        return [[each] for each in flat_bucket(self._place, gradients)]


@final
class Bundle:
    """Buckets updated together: side by side in one flat array on every replica.

    An update is the same work however small it is, and its ops are made on every replica; so small buckets share one.
    It waits for the last of them.
    """

    def __init__(self, buckets: Sequence[Bucket], scalars: Sequence[Scalars], initial: Sequence[Any]) -> None:
        """`scalars` are those of the replicas' devices; `initial[r]` is what replica r starts with, flat."""
        self.buckets = tuple(buckets)
        self.shards = tuple(shard for bucket in buckets for shard in bucket.shards)
        segments = scalars[0].optimizer.segments(self.shards)
        self.blocks = [Block(of, values, segments) for of, values in zip(scalars, initial, strict=True)]

    def begin(self) -> None:
        """Read the values that a step begins with; called while it is traced, before `pull`."""
        for block in self.blocks:
            block.begin()

    def pull(self, replica: int, begun: bool = True) -> list[Any]:
        """The value of every shard, out of the replica's own block: as the step has `begun` with, or as it is."""
        block = self.blocks[replica]
        parts = cut(block.old_value if begun else block.read(), [shard.elements for shard in self.shards], block.device)
        return [shaped(part, shard.shape, block.device) for shard, part in zip(self.shards, parts, strict=True)]

    def updates(self, means: Sequence[Sequence[Sequence[Any]]]) -> list[Update]:
        """An update for every replica's block. `means[b][r]`: what bucket b has become on replica r, in flat pieces."""
        of_replicas = [[piece for pieces in parts for piece in pieces] for parts in zip(*means, strict=True)]
        return [
            Update(block, end_to_end(pieces, block.device), counts=replica == 0)
            for replica, (block, pieces) in enumerate(zip(self.blocks, of_replicas, strict=True))
        ]

    def value_means(self) -> list[tuple[Block, Any]]:
        """Every replica's block, and on its device the mean of all replicas' values."""
        self.begin()
        values = [iter(self.pull(replica)) for replica in range(len(self.blocks))]
        means = [bucket.exchange.means([[next(of) for _ in bucket.shards] for of in values]) for bucket in self.buckets]
        return [
            (block, end_to_end([piece for pieces in parts for piece in pieces], block.device))
            for block, *parts in zip(self.blocks, *means, strict=True)
        ]
