"""Draws random arrays from seeds: tensors inside a TensorFlow graph, or NumPy arrays if there is no TensorFlow.

A seed is an int32 tensor of shape (2,), or a `numpy.random.SeedSequence`. Equal seeds give equal numbers. Seeds of the
two kinds give different numbers of the same shapes, types and distributions.
"""

from collections.abc import Sequence
from typing import Any, final

import numpy as np

Seed = Any


def arrays_of(value: Any) -> Any:
    """The operations for `value`, a seed or an array drawn from a seed: `OnNumPy` or `OnTensorFlow`."""
    return OnNumPy() if isinstance(value, np.random.SeedSequence | np.ndarray) else OnTensorFlow()


@final
class OnTensorFlow:
    """Operations on tensors; each is one TensorFlow function."""

    def __init__(self) -> None:
        import tensorflow as tf

        self._tf = tf
        self.exp, self.square, self.minimum, self.where, self.reshape = (
            tf.exp,
            tf.square,
            tf.minimum,
            tf.where,
            tf.reshape,
        )

    def split(self, seed: Seed, parts: int) -> list[Seed]:
        return list(self._tf.unstack(self._tf.random.split(seed, parts)))

    def uniform(self, seed: Seed, shape: Sequence[int], low: float = 0, high: float = 1) -> Any:
        return self._tf.random.stateless_uniform(shape, seed, minval=low, maxval=high)

    def normal(self, seed: Seed, shape: Sequence[int]) -> Any:
        return self._tf.random.stateless_normal(shape, seed)

    def below(self, seed: Seed, shape: Sequence[int], size: int) -> Any:
        return self._tf.random.stateless_uniform(shape, seed, maxval=size, dtype=self._tf.int32)

    def int32(self, values: Any) -> Any:
        return self._tf.cast(values, self._tf.int32)

    def int64(self, values: Any) -> Any:
        return self._tf.cast(values, self._tf.int64)

    def float32(self, values: Any) -> Any:
        return self._tf.cast(values, self._tf.float32)

    def constant(self, values: Any) -> Any:
        return self._tf.constant(values, self._tf.int32)

    def largest(self, values: Any, count: int) -> tuple[Any, Any]:
        chosen = self._tf.math.top_k(values, count)
        return chosen.values, chosen.indices

    def at(self, rows: Any, places: Any) -> Any:
        return self._tf.gather(rows, places, batch_dims=1)

    def rows(self, table: Any, places: Any) -> Any:
        return self._tf.gather(table, places)

    def replica(self, seed: Seed) -> Any:
        """The number of the drawing replica, which is the second half of a replica's seed."""
        return seed[1]

    def argmax(self, rows: Any) -> Any:
        return self._tf.argmax(rows, axis=1, output_type=self._tf.int32)


@final
class OnNumPy:
    """The same operations on NumPy arrays."""

    def __init__(self) -> None:
        self.exp, self.square, self.minimum, self.where, self.reshape = (
            np.exp,
            np.square,
            np.minimum,
            np.where,
            np.reshape,
        )

    def split(self, seed: Seed, parts: int) -> list[Seed]:
        return [np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, part)) for part in range(parts)]

    def uniform(self, seed: Seed, shape: Sequence[int], low: float = 0, high: float = 1) -> Any:
        return self.float32(low + (high - low) * np.random.default_rng(seed).random(shape, np.float32))

    def normal(self, seed: Seed, shape: Sequence[int]) -> Any:
        return np.random.default_rng(seed).standard_normal(shape, np.float32)

    def below(self, seed: Seed, shape: Sequence[int], size: int) -> Any:
        return np.random.default_rng(seed).integers(size, size=shape, dtype=np.int32)

    def int32(self, values: Any) -> Any:
        return np.asarray(values).astype(np.int32)

    def int64(self, values: Any) -> Any:
        return np.asarray(values).astype(np.int64)

    def float32(self, values: Any) -> Any:
        return np.asarray(values).astype(np.float32)

    def constant(self, values: Any) -> Any:
        return np.array(values, np.int32)

    def largest(self, values: Any, count: int) -> tuple[Any, Any]:
        places = np.argsort(-values, axis=-1, kind="stable")[..., :count].astype(np.int32)
        return np.take_along_axis(values, places, axis=-1), places

    def at(self, rows: Any, places: Any) -> Any:
        return np.take_along_axis(rows, places, axis=1)

    def rows(self, table: Any, places: Any) -> Any:
        return np.asarray(table)[places]

    def replica(self, seed: Seed) -> Any:
        return seed.entropy % 4

    def argmax(self, rows: Any) -> Any:
        return self.int32(np.argmax(rows, axis=1))
