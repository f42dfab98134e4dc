"""What a compressed shard comes to in bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from autosync.spec import PowerSGD

__all__ = ["CompressedShard"]

CAST_BYTES = 2

INDEX_BYTES = 4


@dataclass(frozen=True)
class CompressedShard:
    """A dense shard: its shape, bytes an element, and the rows of its sufficient factors if it has such."""

    shape: tuple[int, ...]
    item_bytes: int
    factor_rows: int | None = None

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.elements * self.item_bytes

    @property
    def factor_bytes(self) -> float:
        """What sufficient factors send in its place: K (M + N) elements."""
        return float((self.factor_rows or 0) * sum(self.shape) * self.item_bytes)


def cast_bytes(shards: Sequence[CompressedShard]) -> float:
    return float(CAST_BYTES * sum(shard.elements for shard in shards))


def power_sgd_bytes(compressor: PowerSGD, shards: Sequence[CompressedShard]) -> tuple[float, float]:
    """Bytes of the factors P with all that travels whole, and of the factors Q."""
    left = right = 0
    for shard in shards:
        matrix = compressor.matrix(shard.shape)
        left += (matrix[0] * compressor.rank if matrix else shard.elements) * shard.item_bytes
        right += matrix[1] * compressor.rank * shard.item_bytes if matrix else 0
    return float(left), float(right)
