"""The arithmetic of PowerSGD on one device: several matrices, kept flat end to end, and their two thin factors.

Factors of all matrices are stacked, (sum of rows, rank) and (sum of columns, rank).
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from autosync.layout.shards import Shard
from autosync.spec import PowerSGD


def first_right_factor(shard: Shard, compressor: PowerSGD) -> npt.NDArray[Any]:
    """Q before the first step, (columns, rank): standard normal, the same in every process for the same shard."""
    matrix = compressor.matrix(shard.shape)
    assert matrix is not None
    seed = hashlib.sha256(f"{shard.variable.name} {shard.slice.index}".encode()).digest()
    generator = np.random.default_rng(int.from_bytes(seed[:8], "big"))
    return generator.standard_normal((matrix[1], compressor.rank)).astype(shard.variable.dtype)


@dataclass(frozen=True)
class Matrices:
    """Matrices of `shapes` (rows, columns), and how many columns their factors have."""

    shapes: tuple[tuple[int, int], ...]
    rank: int

    @property
    def rows(self) -> list[int]:
        return [rows for rows, _ in self.shapes]

    @property
    def columns(self) -> list[int]:
        return [columns for _, columns in self.shapes]

    @property
    def elements(self) -> int:
        return sum(rows * columns for rows, columns in self.shapes)

    def cut(self, flat: Any) -> list[Any]:
        """The matrices in a flat array of them all."""
        import tensorflow as tf

        parts = tf.split(flat, [rows * columns for rows, columns in self.shapes])
        return [tf.reshape(part, shape) for part, shape in zip(parts, self.shapes, strict=True)]

    def left_factors(self, matrices: Sequence[Any], right: Any) -> Any:
        """M Q of every matrix."""
        import tensorflow as tf

        rights = tf.split(right, self.columns)
        return tf.concat([tf.matmul(each, q) for each, q in zip(matrices, rights, strict=True)], 0)

    def right_factors(self, matrices: Sequence[Any], left: Any) -> Any:
        """M^T P of every matrix."""
        import tensorflow as tf

        lefts = tf.split(left, self.rows)
        return tf.concat([tf.matmul(each, p, transpose_a=True) for each, p in zip(matrices, lefts, strict=True)], 0)

    def products(self, left: Any, right: Any) -> list[Any]:
        """P Q^T of every matrix, flat."""
        import tensorflow as tf

        pairs = zip(tf.split(left, self.rows), tf.split(right, self.columns), strict=True)
        return [tf.reshape(tf.matmul(p, q, transpose_b=True), [-1]) for p, q in pairs]

    def renewed(self, old: Any, new: Any, left: Any) -> Any:
        """The next warm start: `new` right factors, but the `old` column where P's, in `left`, is zero."""
        import tensorflow as tf

        of_matrix = np.arange(len(self.shapes), dtype=np.int32)
        largest = tf.math.segment_max(tf.abs(left), np.repeat(of_matrix, self.rows))
        return tf.where(tf.equal(tf.gather(largest, np.repeat(of_matrix, self.columns)), 0), old, new)
