"""Keras variables that a caller may assign to: tells which ones were changed since they were last noted."""

from collections.abc import Sequence
from typing import Any, final

import numpy as np


@final
class Watched:
    """Notices assignments to `variables`, through Keras or TensorFlow, at about 16 us a variable for a look.

    A tensor read from a variable shares the variable's memory, and an assignment gives the variable other memory as
    long as that tensor lives. So only variables whose memory has moved need another look. Scalars and variables that
    are copied when they are read (on GPUs, or once rows of them were updated) are compared by content.
    """

    def __init__(self, variables: Sequence[Any]) -> None:
        self._variables = list(variables)
        self._noted: list[Any] = []
        self._shares: list[bool] = []
        self.note()

    def note(self) -> None:
        """Take the present contents as unchanged."""
        self._noted = [_read(variable) for variable in self._variables]
        again = [_read(variable) for variable in self._variables]
        self._shares = [_is_one_memory(one, another) for one, another in zip(self._noted, again, strict=True)]

    def changed(self, is_stale: bool = False) -> set[int]:
        """The `id`s of variables whose contents differ from those noted, bit by bit.

        `is_stale` says that the contents noted are out of date: then the same contents, assigned again, are a change.
        """
        found = set()
        for variable, noted, shares in zip(self._variables, self._noted, self._shares, strict=True):
            present = _read(variable)
            if shares and _is_one_memory(present, noted):
                continue
            if (shares and is_stale) or not _same_bits(_array(present), _array(noted)):
                found.add(id(variable))
        return found


def _read(variable: Any) -> Any:
    """The contents as a tensor, without a copy where TensorFlow makes none."""
    import tensorflow as tf

    held = getattr(variable, "value", variable)
    if not hasattr(held, "handle"):
        return tf.convert_to_tensor(held)
    return tf.raw_ops.ReadVariableOp(resource=held.handle, dtype=held.dtype)


def _array(tensor: Any) -> Any:
    """The tensor's memory as an array, for reading only; `tensor.numpy()` would copy it."""
    return np.asarray(tensor._numpy_internal())


def _is_one_memory(one: Any, another: Any) -> bool:
    """Whether two tensors are known to share their memory; scalars come as copies."""
    first, second = _array(one), _array(another)
    if not first.ndim or not second.ndim:
        return False
    addresses = [array.__array_interface__["data"][0] for array in (first, second)]
    return bool(addresses[0] == addresses[1])


def _same_bits(one: Any, another: Any) -> bool:
    if one.shape != another.shape or one.dtype != another.dtype:
        return False
    return bool(np.array_equal(_bytes(one), _bytes(another)))


def _bytes(array: Any) -> Any:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
