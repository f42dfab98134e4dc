"""A user's example batch, given again to every replica, as a rule in another order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from autosync.errors import ModelError

__all__ = ["ExampleBatch"]


@dataclass(frozen=True, eq=False)
class ExampleBatch:
    """Calling it with an int32 seed of shape (2,) gives (inputs, targets), rolled along the first axis by the seed.

    `arrays` is a structure of NumPy arrays, not of tensors: a traced function then holds them as constants of its own
    instead of capturing them. Rolling keeps each example whole, so embedding ids stay the real ones; seeds that differ
    by less than the batch size in one place give different orders. What counts positions in the batch, as targets
    may, is wrong once it is rolled; with `rolled` False every seed gives the example as it is.
    """

    arrays: tuple[Any, Any]
    batch_size: int
    rolled: bool = True

    @classmethod
    def from_pair(cls, spec: str, pair: Any) -> ExampleBatch:
        """The batch of `pair`, (inputs, targets). Raises `ModelError`, naming `spec`, unless first axes are equal.

        float64 becomes float32, as `keras.Model.fit` does it.
        """
        try:
            arrays = tf.nest.map_structure(_array, pair)
        except (TypeError, ValueError) as error:
            raise ModelError(f"The batch of {spec!r} must hold arrays or tensors only, but: {error}.") from error
        leaves = tf.nest.flatten(arrays)
        lengths = sorted({each.shape[0] if each.ndim else 0 for each in leaves})
        if len(lengths) != 1 or lengths[0] < 1:
            shapes = ", ".join(str(each.shape) for each in leaves)
            raise ModelError(
                f"All inputs and targets of {spec!r} must have the batch size as first dimension, "
                f"but their shapes are {shapes}."
            )
        return cls(arrays, lengths[0])

    def inputs(self) -> Any:
        """The inputs as tensors, in the order the user gave them."""
        return tf.nest.map_structure(tf.constant, self.arrays[0])

    def __call__(self, seed: Any) -> tuple[Any, Any]:
        if not self.rolled:
            inputs, targets = tf.nest.map_structure(tf.constant, self.arrays)
            return inputs, targets
        shift = tf.math.floormod(tf.reduce_sum(seed), self.batch_size)
        inputs, targets = tf.nest.map_structure(lambda each: tf.roll(tf.constant(each), shift, axis=0), self.arrays)
        return inputs, targets


def _array(value: Any) -> Any:
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"found {type(value).__name__} of dtype {array.dtype}")
    return array.astype(np.float32) if array.dtype == np.float64 else array
