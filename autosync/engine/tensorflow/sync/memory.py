"""The memory of compressors from one step to the next: unsent rests, warm starts, and the next sender."""

from collections.abc import Sequence
from typing import Any, final

import numpy as np
import tensorflow as tf

from autosync.engine.tensorflow.state import AS_IT_IS, Correction
from autosync.engine.tensorflow.sync.member import Member


@final
class ReplicaMemory:
    """One TensorFlow variable a replica, on the replica's device. A step reads it once, and `advance` stores new
    values.

    `in_gradient_units`: the values are sums of gradients, so they must follow changes of the loss scale.
    """

    def __init__(self, members: Sequence[Member], start: Any, in_gradient_units: bool = False) -> None:
        """`start` is a NumPy array or scalar, equal on every replica; not a tensor, which would be on one device."""
        self._devices = [member.device for member in members]
        self._in_gradient_units = in_gradient_units
        self._read: list[Any] = []
        self._next: list[Any] = []
        self.variables = []
        for device in self._devices:
            with tf.device(device):
                self.variables.append(tf.Variable(tf.constant(start), trainable=False))

    def begin(self) -> None:
        """Begin to trace a step. A step that does not read the memory leaves it unchanged."""
        self._read, self._next = [], []

    def read(self) -> list[Any]:
        """Read every replica's value. Call this while a step is traced."""
        self._read, self._next = [], []
        for device, variable in zip(self._devices, self.variables, strict=True):
            with tf.device(device):
                self._read.append(variable.read_value())
        return self._read

    def keep(self, values: Sequence[tf.Tensor]) -> None:
        """Set the values to remember from this step, one a replica, on the replica's device."""
        self._next = list(values)

    def advance(self, correction: Correction = AS_IT_IS) -> None:
        """Store the kept values for the next step. If the correction forbids the step, the old values stay."""
        if not self._read:
            return
        for device, variable, old, new in zip(self._devices, self.variables, self._read, self._next, strict=True):
            with tf.device(device):
                kept = correction.choose(new, old)
                if self._in_gradient_units and correction.growth is not None:
                    kept *= tf.cast(correction.growth, kept.dtype)
                variable.assign(kept)


@final
class ErrorFeedback:
    """Adds the unsent rest of a replica's gradient to its next gradient (Karimireddy et al. 2019)."""

    def __init__(self, members: Sequence[Member], elements: int, dtype: str) -> None:
        self._members = tuple(members)
        self.memory = ReplicaMemory(members, np.zeros(elements, dtype), in_gradient_units=True)

    def add_unsent(self, gradients: Sequence[tf.Tensor]) -> list[Any]:
        """Return every replica's flat gradient plus its unsent rest."""
        accumulated = []
        for member, held, gradient in zip(self._members, self.memory.read(), gradients, strict=True):
            with tf.device(member.device):
                accumulated.append(held + gradient)
        return accumulated

    def keep(self, unsent: Sequence[tf.Tensor]) -> None:
        self.memory.keep(unsent)
