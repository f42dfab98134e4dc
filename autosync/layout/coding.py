"""Byte counts of compressed shards, each encoded by itself; `cost/channel_uses.py` counts a bucket under top-k."""

from collections.abc import Sequence

from autosync.layout.shards import Shard
from autosync.spec import Cast, PowerSGD, TopK

CAST_BYTES = 2

INDEX_BYTES = 4


def bytes_when_encoded(shard: Shard) -> float:
    """Bytes of one replica's gradient of a whole shard, encoded by itself."""
    compressor, whole = shard.synchronizer.compressor, shard.slice
    if compressor is None:
        return float(whole.bytes)
    if isinstance(compressor, Cast):
        return cast_bytes([shard])
    if isinstance(compressor, TopK):
        return compressor.kept(whole.elements) * float(whole.item_bytes + INDEX_BYTES)
    if isinstance(compressor, PowerSGD):
        return sum(power_sgd_bytes(compressor, [shard]))
    return factor_bytes(shard)


def cast_bytes(shards: Sequence[Shard]) -> float:
    return float(CAST_BYTES * sum(shard.elements for shard in shards))


def factor_bytes(shard: Shard) -> float:
    """Bytes of the sufficient factors that replace a shard's gradient: K (M + N) elements."""
    return float((shard.variable.factor_rows or 0) * sum(shard.shape) * shard.slice.item_bytes)


def power_sgd_bytes(compressor: PowerSGD, shards: Sequence[Shard]) -> tuple[float, float]:
    """Bytes of the factors P and of all gradients sent uncompressed, and bytes of the factors Q."""
    left = right = 0
    for shard in shards:
        matrix = compressor.matrix(shard.shape)
        left += (matrix[0] * compressor.rank if matrix else shard.elements) * shard.slice.item_bytes
        right += matrix[1] * compressor.rank * shard.slice.item_bytes if matrix else 0
    return float(left), float(right)
