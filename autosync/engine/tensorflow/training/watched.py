"""Finds the Keras variables that a caller has assigned to since their contents were last noted."""

from collections.abc import Sequence
from typing import Any, final

import numpy as np


@final
class Watched:
    """Notices assignments to `variables`, through Keras or TensorFlow, in about 16 us a variable.

    A tensor that was read from a variable shares the variable's memory. While that tensor exists, an assignment gives
    the variable other memory. So only variables whose memory has moved need a comparison. Scalars, and variables that
    are copied when they are read (on GPUs, or after updates of single rows), are compared by content.
    """

    def __init__(self, variables: Sequence[Any]) -> None:
        self._variables = list(variables)
        self._noted: list[Any] = []
        self._shares: list[bool] = []
        self.note()

    def note(self) -> None:
        """Note the present contents as the unchanged ones."""
        self._noted = [_read(variable) for variable in self._variables]
        again = [_read(variable) for variable in self._variables]
        self._shares = [_share_memory(noted, read) for noted, read in zip(self._noted, again, strict=True)]

    def changed(self, is_stale: bool = False) -> set[int]:
        """Return the `id`s of variables whose contents differ from the noted ones in any bit.

        If `is_stale`, the noted contents are out of date, and assigning the same contents again is a change too.
        """
        changed = set()
        for variable, noted, shares in zip(self._variables, self._noted, self._shares, strict=True):
            present = _read(variable)
            if shares and _share_memory(present, noted):
                continue
            if (shares and is_stale) or not _same_bits(_array(present), _array(noted)):
                changed.add(id(variable))
        return changed


def _read(variable: Any) -> Any:
    """Return the contents as a tensor, without a copy if TensorFlow needs none."""
    import tensorflow as tf

    held = getattr(variable, "value", variable)
    if not hasattr(held, "handle"):
        return tf.convert_to_tensor(held)
    return tf.raw_ops.ReadVariableOp(resource=held.handle, dtype=held.dtype)


def _array(tensor: Any) -> Any:
    """Return the tensor's memory as an array, for reading only; `tensor.numpy()` would copy the memory."""
    return np.asarray(tensor._numpy_internal())


def _share_memory(tensor: Any, second_tensor: Any) -> bool:
    """Whether two tensors certainly share their memory; False for scalars, which are always copies."""
    first, second = _array(tensor), _array(second_tensor)
    if not first.ndim or not second.ndim:
        return False
    addresses = [array.__array_interface__["data"][0] for array in (first, second)]
    return bool(addresses[0] == addresses[1])


def _same_bits(first: Any, second: Any) -> bool:
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    return bool(np.array_equal(_bytes(first), _bytes(second)))


def _bytes(array: Any) -> Any:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
