"""Values and gradients cut into shards, and rows sorted by the shard that holds them."""

from collections.abc import Sequence
from typing import Any

from autosync.engine.step.replica import Lookups, Results
from autosync.engine.sync.exchange import FactorPair
from autosync.layout.shards import Shard
from autosync.spec import SufficientFactors

Key = tuple[int, int]  # variable number, shard number


def key_of(shard: Shard) -> Key:
    return shard.slice.variable_index, shard.slice.index


def split_gradient(shards: Sequence[Shard], result: Results, device: str) -> dict[Key, Any]:
    """A dense gradient's pieces, by shard; its factors where the synchronizer sends those."""
    import tensorflow as tf

    number = shards[0].slice.variable_index
    if isinstance(shards[0].synchronizer.compressor, SufficientFactors):
        return {key_of(shards[0]): FactorPair(*result.factors[number])}
    gradient = result.gradients[number]
    with tf.device(device):
        pieces = (
            tf.split(gradient, [shard.slice.size for shard in shards], shards[0].slice.axis)
            if len(shards) > 1
            else [gradient]
        )
        return {key_of(shard): piece for shard, piece in zip(shards, pieces, strict=True)}


def split_ids(shards: Sequence[Shard], found: Lookups, device: str) -> list[Any]:
    """Sorted distinct row numbers, by shard and counted from each shard's first row; the same tensors at each call."""
    import tensorflow as tf

    number = shards[0].slice.variable_index
    if number not in found.of_shards:
        ids = found.ids[number]
        with tf.device(device):
            parts = _cut(shards, ids, ids) if len(shards) > 1 else [tf.identity(ids)]
            cut = [
                each - shard.slice.start if shard.slice.start else each
                for shard, each in zip(shards, parts, strict=True)
            ]
        found.of_shards[number] = cut
    return found.of_shards[number]


def split_rows(shards: Sequence[Shard], found: Lookups, result: Results, device: str) -> list[tuple[Any, Any]]:
    """The row numbers, from the shard's first row on, and their gradients, for every shard of a sparse variable."""
    import tensorflow as tf

    number = shards[0].slice.variable_index
    ids, rows = found.ids[number], result.gradients[number]
    with tf.device(device):
        parts = _cut(shards, ids, rows) if len(shards) > 1 else [rows]
    return list(zip(split_ids(shards, found, device), parts, strict=True))


def _cut(shards: Sequence[Shard], ids: Any, tensor: Any) -> list[Any]:
    """Cut `tensor` along axis 0 where the sorted `ids` pass from one shard to the next."""
    import tensorflow as tf

    bounds = tf.searchsorted(ids, tf.constant([shard.slice.start for shard in shards[1:]], ids.dtype))
    ends = tf.concat([bounds, [tf.size(ids)]], 0)
    begins = tf.concat([[0], bounds], 0)
    return [tensor[begins[index] : ends[index]] for index in range(len(shards))]
