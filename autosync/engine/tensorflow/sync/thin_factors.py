"""The arithmetic of PowerSGD on one device, for several matrices in one flat array and their two thin factors.

The factors of all matrices are stacked: (sum of rows, rank) and (sum of columns, rank).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf


@dataclass(frozen=True)
class FactoredMatrices:
    """Matrices of `shapes` (rows, columns), and `rank`, the number of columns of their factors."""

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

    def cut(self, flat: tf.Tensor) -> list[Any]:
        """Cut the matrices out of one flat array."""
        parts = tf.split(flat, [rows * columns for rows, columns in self.shapes])
        return [tf.reshape(part, shape) for part, shape in zip(parts, self.shapes, strict=True)]

    def left_factors(self, matrices: Sequence[tf.Tensor], right: tf.Tensor) -> Any:
        """M Q of every matrix."""
        rights = tf.split(right, self.columns)
        return tf.concat([tf.matmul(matrix, q) for matrix, q in zip(matrices, rights, strict=True)], 0)

    def right_factors(self, matrices: Sequence[tf.Tensor], left: tf.Tensor) -> Any:
        """M^T P of every matrix."""
        lefts = tf.split(left, self.rows)
        return tf.concat([tf.matmul(matrix, p, transpose_a=True) for matrix, p in zip(matrices, lefts, strict=True)], 0)

    def products(self, left: tf.Tensor, right: tf.Tensor) -> list[Any]:
        """P Q^T of every matrix, flat."""
        pairs = zip(tf.split(left, self.rows), tf.split(right, self.columns), strict=True)
        return [tf.reshape(tf.matmul(p, q, transpose_b=True), [-1]) for p, q in pairs]

    def warm_start(self, old: Any, new: Any, left: tf.Tensor) -> Any:
        """The next warm start: the `new` right factors, but `old` columns where the columns of P, `left`, are zero."""
        of_matrix = np.arange(len(self.shapes), dtype=np.int32)
        largest = tf.math.segment_max(tf.abs(left), np.repeat(of_matrix, self.rows))
        return tf.where(tf.equal(tf.gather(largest, np.repeat(of_matrix, self.columns)), 0), old, new)
