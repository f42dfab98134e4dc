"""Orthonormalizes the columns of many matrices at once, in the same order of operations on every replica."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

VANISHED = 1e-4
"""A column that keeps at most this share of its length without earlier columns is rounding error and becomes zero."""


def orthonormal(stacked: Any, rows: Sequence[int]) -> tf.Tensor:
    """Orthonormalize the columns of stacked matrices (rows[s], r) by Gram-Schmidt, each twice (Giraud et al. 2005).

    `stacked` and the result are (sum of rows, r). The columns of each matrix become orthonormal, or zero. All sums run
    over the rows of one matrix in their order. `segment_sum` keeps this order only on CPUs (see `Member.host`).
    """
    of_matrix = tf.constant(np.repeat(np.arange(len(rows), dtype=np.int32), rows))

    def sums(column: Any) -> tf.Tensor:
        return tf.math.segment_sum(column, of_matrix)

    columns: list[Any] = []
    for column in tf.split(stacked, stacked.shape[1], axis=1):
        largest = tf.math.segment_max(tf.abs(column), of_matrix)  # the square of a larger number might overflow
        column = tf.math.divide_no_nan(column, tf.gather(largest, of_matrix))
        before = sums(tf.square(column))
        if columns:
            basis = tf.concat(columns, 1)
            for _ in range(2):
                along = tf.gather(sums(basis * column), of_matrix)
                column -= tf.reduce_sum(basis * along, axis=1, keepdims=True)
        left = sums(tf.square(column))
        scale = tf.where(left <= VANISHED**2 * before, tf.zeros_like(left), tf.math.rsqrt(left))  # NaN stays
        columns.append(column * tf.gather(scale, of_matrix))
    return tf.concat(columns, 1)
