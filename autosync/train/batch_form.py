"""The form of a batch: how a pair (inputs, targets) becomes a flat list of arrays, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from autosync.train.training_error import TrainingError

__all__ = ["BatchForm", "as_arrays", "leaves_of"]

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class BatchForm:
    """What every batch shares with the first one: the names, shapes (without the first axis) and dtypes of its arrays.

    `examples` is how many each replica must get, where the model fixes it.
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    examples: int | None = None

    @classmethod
    def of(cls, batch: Any, examples: int | None = None) -> BatchForm:
        """The form of the first batch. Raises `TrainingError` when it is no pair of arrays of one length."""
        leaves = _as_float32(dict(leaves_of(batch)))
        form = cls(
            names=tuple(leaves),
            shapes=tuple(each.shape[1:] for each in leaves.values()),
            dtypes=tuple(str(each.dtype) for each in leaves.values()),
            examples=examples,
        )
        _check_lengths(leaves)
        return form

    def flat(self, batch: Any) -> list[Array]:
        """The arrays of `batch` (NumPy arrays, tensors, or nested lists of numbers), in this form's order and dtypes.

        Raises `TrainingError`.
        """
        leaves = dict(leaves_of(batch))
        if tuple(leaves) != self.names:
            raise TrainingError(
                f"Every batch must have the arrays of the first one, {', '.join(self.names)}, "
                f"but one has {', '.join(leaves)}."
            )
        _check_lengths(leaves)
        return [
            _fitted(name, leaves[name], shape, dtype)
            for name, shape, dtype in zip(self.names, self.shapes, self.dtypes, strict=True)
        ]


def leaves_of(batch: Any) -> Iterator[tuple[str, Array]]:
    """Every array of `batch` by a name such as `inputs['ids']`, in TensorFlow's order: dictionaries by their keys."""
    inputs, targets = as_arrays(batch)
    yield from _leaves("inputs", inputs)
    yield from _leaves("targets", targets)


def as_arrays(batch: Any) -> tuple[Any, Any]:
    """(inputs, targets) with NumPy arrays in the place of tensors and of lists of numbers. Raises `TrainingError`."""
    if not isinstance(batch, tuple | list) or len(batch) != 2:
        what = f"a {type(batch).__name__} of {len(batch)}" if isinstance(batch, tuple | list) else type(batch).__name__
        raise TrainingError(f"A batch must be a pair (inputs, targets), not {what}.")
    return _as_arrays("inputs", batch[0]), _as_arrays("targets", batch[1])


def _as_arrays(name: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _as_arrays(f"{name}[{key!r}]", each) for key, each in value.items()}
    if isinstance(value, tuple) or (isinstance(value, list) and value and hasattr(value[0], "shape")):
        return tuple(_as_arrays(f"{name}[{index}]", each) for index, each in enumerate(value))
    array = np.asarray(value)
    if array.dtype.kind not in "biufV" or array.ndim == 0:  # V: bfloat16
        raise TrainingError(
            f"{name} of a batch must be an array of numbers whose first axis counts examples, not "
            f"{type(value).__name__} of dtype {array.dtype} and shape {array.shape}."
        )
    return array


def _leaves(name: str, value: Any) -> Iterator[tuple[str, Array]]:
    if isinstance(value, dict):
        for key in sorted(value):
            yield from _leaves(f"{name}[{key!r}]", value[key])
    elif isinstance(value, tuple):
        for index, each in enumerate(value):
            yield from _leaves(f"{name}[{index}]", each)
    else:
        yield name, value


def _as_float32(leaves: dict[str, Array]) -> dict[str, Array]:
    """The arrays, with float64 ones as float32, as in `keras.Model.fit`."""
    return {name: each.astype("float32") if each.dtype == np.float64 else each for name, each in leaves.items()}


def _check_lengths(leaves: Mapping[str, Array]) -> None:
    if len({len(each) for each in leaves.values()}) != 1 or not len(next(iter(leaves.values()))):
        found = ", ".join(f"{name} {len(each)}" for name, each in leaves.items())
        raise TrainingError(f"All arrays of a batch must have the same number of examples, at least 1, but: {found}.")


def _fitted(name: str, array: Array, shape: tuple[int, ...], dtype: str) -> Array:
    if array.shape[1:] != shape or not np.can_cast(array.dtype, dtype, "same_kind"):
        raise TrainingError(
            f"{name} of every batch must be {dtype} of shape (examples, {str(shape)[1:-1].rstrip(',')}) as in the "
            f"first one, not {array.dtype} of {array.shape}."
        )
    return array.astype(dtype, copy=False)
