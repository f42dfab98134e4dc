"""What replicas remember from one step to the next: what was not sent yet, warm starts, whose turn it is."""

from collections.abc import Sequence
from typing import Any, final

import numpy as np

from autosync.engine.state import AS_IT_IS, Correction
from autosync.engine.sync.member import Member


@final
class Memory:
    """One TensorFlow variable a replica, on its device; a step reads it once, and its new value waits for `advance`.

    `in_gradient_units`: it is as large as the gradients are, and so follows the loss scale that they come out with.
    """

    def __init__(self, members: Sequence[Member], start: Any, in_gradient_units: bool = False) -> None:
        """`start` is a NumPy array or scalar, the same on every replica; no tensor of one device."""
        import tensorflow as tf

        self._devices = [member.device for member in members]
        self._in_gradient_units = in_gradient_units
        self._read: list[Any] = []
        self._next: list[Any] = []
        self.variables = []
        for device in self._devices:
            with tf.device(device):
                self.variables.append(tf.Variable(tf.constant(start), trainable=False))

    def begin(self) -> None:
        """Begin a step, while it is traced; if it does not read this memory, it leaves it as it is."""
        self._read, self._next = [], []

    def read(self) -> list[Any]:
        """Every replica's value; called while a step is traced."""
        import tensorflow as tf

        self._read, self._next = [], []
        for device, variable in zip(self._devices, self.variables, strict=True):
            with tf.device(device):
                self._read.append(variable.read_value())
        return self._read

    def keep(self, values: Sequence[Any]) -> None:
        """Note what to remember of this step, one value a replica, on its device."""
        self._next = list(values)

    def advance(self, correction: Correction = AS_IT_IS) -> None:
        """Store what was kept for the next step; of a step that is not allowed nothing is remembered."""
        import tensorflow as tf

        if not self._read:
            return
        for device, variable, old, new in zip(self._devices, self.variables, self._read, self._next, strict=True):
            with tf.device(device):
                kept = correction.chosen(new, old)
                if self._in_gradient_units and correction.growth is not None:
                    kept *= tf.cast(correction.growth, kept.dtype)
                variable.assign(kept)


@final
class ErrorFeedback:
    """What a replica has not sent is added to its next gradient (Karimireddy et al. 2019)."""

    def __init__(self, members: Sequence[Member], elements: int, dtype: str) -> None:
        self._members = tuple(members)
        self.memory = Memory(members, np.zeros(elements, dtype), in_gradient_units=True)

    def added(self, gradients: Sequence[Any]) -> list[Any]:
        """Every replica's flat gradient plus what it still had to send."""
        import tensorflow as tf

        accumulated = []
        for member, held, gradient in zip(self._members, self.memory.read(), gradients, strict=True):
            with tf.device(member.device):
                accumulated.append(held + gradient)
        return accumulated

    def keep(self, unsent: Sequence[Any]) -> None:
        self.memory.keep(unsent)
