"""Cuts gradients into shards, and sorts rows by the shard that holds them."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from autosync.engine.tensorflow.step.replica import Lookups, Results
from autosync.engine.tensorflow.sync.exchange import FactorPair
from autosync.layout.shards import Shard
from autosync.spec import SufficientFactors

Key = tuple[int, int]  # variable number, shard number


def key_of(shard: Shard) -> Key:
    return shard.slice.variable_index, shard.slice.index


def split_gradient(shards: Sequence[Shard], result: Results, device: str) -> dict[Key, Any]:
    """Cut a dense gradient into pieces by shard, or return its factors if the synchronizer sends factors."""
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


def split_ids(shards: Sequence[Shard], lookups: Lookups, device: str) -> list[Any]:
    """Return the sorted distinct row numbers by shard, counted from each shard's first row; cached in `lookups`."""
    number = shards[0].slice.variable_index
    if number not in lookups.of_shards:
        ids = lookups.ids[number]
        with tf.device(device):
            parts = _cut(shards, ids, ids) if len(shards) > 1 else [tf.identity(ids)]
            cut = [
                part - shard.slice.start if shard.slice.start else part
                for shard, part in zip(shards, parts, strict=True)
            ]
        lookups.of_shards[number] = cut
    return lookups.of_shards[number]


def split_rows(shards: Sequence[Shard], lookups: Lookups, result: Results, device: str) -> list[tuple[Any, Any]]:
    """Return the row numbers, counted from the shard's first row, and their gradients, for every shard."""
    number = shards[0].slice.variable_index
    ids, rows = lookups.ids[number], result.gradients[number]
    with tf.device(device):
        parts = _cut(shards, ids, rows) if len(shards) > 1 else [rows]
    return list(zip(split_ids(shards, lookups, device), parts, strict=True))


def _cut(shards: Sequence[Shard], ids: tf.Tensor, tensor: tf.Tensor) -> list[Any]:
    """Cut `tensor` along axis 0 at the positions where the sorted `ids` pass from one shard to the next."""
    bounds = tf.searchsorted(ids, tf.constant([shard.slice.start for shard in shards[1:]], ids.dtype))
    ends = tf.concat([bounds, [tf.size(ids)]], 0)
    begins = tf.concat([[0], bounds], 0)
    return [tensor[begins[index] : ends[index]] for index in range(len(shards))]
