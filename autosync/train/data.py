"""Sources of batches: any iterable, or readers that run in the worker processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, final

import numpy as np
import numpy.typing as npt

from autosync.engine.core.text_inputs import WITHOUT_TEXT, is_text
from autosync.errors import TrainingError
from autosync.numeric import AnyArray


@dataclass(frozen=True)
class BatchForm:
    """The form that every batch shares with the first one."""

    names: tuple[str, ...]
    """The names of the arrays, in TensorFlow's order."""
    shapes: tuple[tuple[int, ...], ...]
    """The shapes of the arrays without their first axis, which counts examples."""
    dtypes: tuple[str, ...]
    """The dtypes of the arrays."""
    examples: int | None = None
    """Examples a replica, if the model's inputs fix that number; otherwise None."""

    @classmethod
    def of(cls, batch: Any, examples: int | None = None) -> BatchForm:
        """Return the form of the first batch. Raises `TrainingError` if it is no pair of arrays of one length."""
        leaves = _as_float32(dict(leaves_of(batch)))
        form = cls(
            names=tuple(leaves),
            shapes=tuple(leaf.shape[1:] for leaf in leaves.values()),
            dtypes=tuple(str(leaf.dtype) for leaf in leaves.values()),
            examples=examples,
        )
        _check_lengths(leaves)
        return form

    def flat(self, batch: Any) -> list[AnyArray]:
        """Return the arrays of `batch` (NumPy arrays, tensors, or nested lists of numbers) in this form's order and
        dtypes.

        Raises `TrainingError` if the batch does not have this form.
        """
        leaves = dict(leaves_of(batch))
        if tuple(leaves) != self.names:
            raise TrainingError(
                f"Every batch must have the arrays of the first one, {', '.join(self.names)}, "
                f"but one has {', '.join(leaves)}."
            )
        _check_lengths(leaves)
        return [
            _fit_to_form(name, leaves[name], shape, dtype)
            for name, shape, dtype in zip(self.names, self.shapes, self.dtypes, strict=True)
        ]


def leaves_of(batch: Any) -> Iterator[tuple[str, AnyArray]]:
    """Yield the arrays of `batch` by name, such as `inputs['ids']`, in TensorFlow's order: dictionaries by key."""
    inputs, targets = as_arrays(batch)
    yield from _leaves("inputs", inputs)
    if isinstance(targets, Weighted):
        yield from _leaves("targets", targets.targets)
        yield from _leaves("weights", targets.weights)
    else:
        yield from _leaves("targets", targets)


class Weighted(NamedTuple):
    """The targets of a batch, with a weight for each example."""

    targets: Any
    weights: Any


def as_arrays(batch: Any) -> tuple[Any, Any]:
    """Return (inputs, targets) as NumPy arrays instead of tensors and lists of numbers. Raises `TrainingError`.

    For a batch (inputs, targets, weights), the targets are `Weighted`.
    """
    if not isinstance(batch, tuple | list) or len(batch) not in (2, 3):
        kind = f"a {type(batch).__name__} of {len(batch)}" if isinstance(batch, tuple | list) else type(batch).__name__
        raise TrainingError(f"A batch must be a pair (inputs, targets), perhaps with weights as a third, not {kind}.")
    inputs, targets = _as_arrays("inputs", batch[0]), _as_arrays("targets", batch[1])
    if len(batch) == 2 or batch[2] is None:
        return inputs, targets
    return inputs, Weighted(targets, _as_arrays("weights", batch[2]))


def _as_arrays(name: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _as_arrays(f"{name}[{key!r}]", part) for key, part in value.items()}
    if isinstance(value, tuple) or (isinstance(value, list) and value and hasattr(value[0], "shape")):
        return tuple(_as_arrays(f"{name}[{index}]", part) for index, part in enumerate(value))
    array = np.asarray(value)
    if is_text(array):
        raise TrainingError(f"{name} of a batch must be numbers, but holds strings, {WITHOUT_TEXT}.")
    if array.dtype.kind not in "biufV" or array.ndim == 0:  # V: bfloat16
        raise TrainingError(
            f"{name} of a batch must be an array of numbers whose first axis counts examples, not "
            f"{type(value).__name__} of dtype {array.dtype} and shape {array.shape}."
        )
    return array


def _leaves(name: str, value: Any) -> Iterator[tuple[str, AnyArray]]:
    if isinstance(value, dict):
        for key in sorted(value):
            yield from _leaves(f"{name}[{key!r}]", value[key])
    elif isinstance(value, tuple):
        for index, part in enumerate(value):
            yield from _leaves(f"{name}[{index}]", part)
    else:
        yield name, value


def _as_float32(leaves: dict[str, AnyArray]) -> dict[str, AnyArray]:
    """Return the arrays with float64 converted to float32, as `keras.Model.fit` does."""
    return {name: leaf.astype("float32") if leaf.dtype == np.float64 else leaf for name, leaf in leaves.items()}


def _check_lengths(leaves: Mapping[str, AnyArray]) -> None:
    if len({len(leaf) for leaf in leaves.values()}) != 1 or not len(next(iter(leaves.values()))):
        counts = ", ".join(f"{name} {len(leaf)}" for name, leaf in leaves.items())
        raise TrainingError(f"All arrays of a batch must have the same number of examples, at least 1, but: {counts}.")


def _fit_to_form(name: str, array: AnyArray, shape: tuple[int, ...], dtype: str) -> AnyArray:
    if array.shape[1:] != shape or not np.can_cast(array.dtype, dtype, "same_kind"):
        raise TrainingError(
            f"{name} of every batch must be {dtype} of shape (examples, {str(shape)[1:-1].rstrip(',')}) as in the "
            f"first one, not {array.dtype} of {array.shape}."
        )
    return array.astype(dtype, copy=False)


@final
@dataclass(frozen=True)
class Synthetic:
    """The batches that a model of the zoo generates itself: an endless sequence that depends only on the step."""


@final
@dataclass(frozen=True)
class Sharded:
    """Data that the worker processes read themselves, so that no batch passes through the caller or the client.

    `dataset_fn(shard, shards)` returns an iterable of batches (inputs, targets) for replica number `shard` of `shards`.
    The process that hosts the replica calls it once for every pass over the data, and prefetches the batches. A
    replica's batch is its part of the step's batch: a step trains on `shards` times as many examples. Shards may differ
    in length; a pass ends with the longest shard.
    """

    dataset_fn: Callable[[int, int], Iterable[Any]]

    def first(self, shards: int) -> Any:
        """Read one batch in this process, to learn the form of all batches."""
        return next(iter(self.dataset_fn(0, shards)), None)

    def reader(self, shards: int) -> Callable[[int, int], Iterable[Any]]:  # noqa: ARG002 - as `RayBatches.reader`
        """Return the function that reads a shard; the process that hosts the replica calls it."""
        return self.dataset_fn


@final
@dataclass(frozen=True)
class RayBatches:
    """Batches of a `ray.data.Dataset`, with the names of the columns that hold `inputs` and `targets`.

    `inputs` and `targets` are the name of a column, or names, which give a dictionary. With `sharded`, the data set is
    split over the replicas (`streaming_split`), each worker reads its part, and `batch_size` is the examples a replica
    and step. Without `sharded` the caller reads, and `batch_size` is the examples of the whole step. The data set must
    give its batches as NumPy arrays, as columns of numbers do.
    """

    dataset: Any
    batch_size: int
    inputs: str | Sequence[str]
    targets: str | Sequence[str]
    sharded: bool = True

    def __iter__(self) -> Iterator[Any]:
        return map(self.pair, self.dataset.iter_batches(batch_size=self.batch_size, batch_format="numpy"))

    def pair(self, columns: Mapping[str, npt.NDArray[Any]]) -> tuple[Any, Any]:
        """Return (inputs, targets) of one batch of columns."""
        return _select_columns(columns, self.inputs), _select_columns(columns, self.targets)

    def first(self, shards: int) -> Any:  # noqa: ARG002 - as `Sharded.first`
        """Read one batch in this process, to learn the form of all batches."""
        return next(iter(self), None)

    def reader(self, shards: int) -> Callable[[int, int], Iterable[Any]]:
        """Return a reader for all shards; it can be sent to another process of the same Ray cluster."""
        parts = self.dataset.streaming_split(shards, equal=False)
        return _RayReader(parts, replace(self, dataset=None))


@dataclass(frozen=True)
class _RayReader:
    """Reads the shards `parts` with the columns of `batches`, which has no data set itself."""

    parts: Sequence[Any]
    batches: RayBatches

    def __call__(self, shard: int, shards: int) -> Iterator[Any]:
        assert shards == len(self.parts)
        return iter(replace(self.batches, dataset=self.parts[shard]))


@dataclass(frozen=True)
class FlatReader:
    """Reads the batches of one shard as flat lists of arrays of `form`. The object is sent to the worker processes."""

    dataset_fn: Callable[[int, int], Iterable[Any]]
    form: BatchForm

    def __call__(self, shard: int, shards: int) -> Iterator[list[npt.NDArray[Any]]]:
        return (self.form.flat(batch) for batch in self.dataset_fn(shard, shards))


def _select_columns(columns: Mapping[str, npt.NDArray[Any]], names: str | Sequence[str]) -> Any:
    if isinstance(names, str):
        return np.asarray(columns[names])
    return {name: np.asarray(columns[name]) for name in names}


@dataclass(frozen=True)
class Share:
    """The examples `begin` to `end` of a batch; the first `counted` of them count in loss and gradient."""

    begin: int
    end: int
    counted: int


def shares(examples: int, replicas: int) -> tuple[Share, ...]:
    """Split a batch of `examples` as evenly as possible; the first replicas get one example more.

    A replica without examples runs a copy of the first example, which does not count, because every replica takes part
    in every step.
    """
    quotient, remainder = divmod(examples, replicas)
    dealt, begin = [], 0
    for replica in range(replicas):
        size = quotient + (replica < remainder)
        dealt.append(Share(begin, begin + size, size) if size else Share(0, 1, 0))
        begin += size
    return tuple(dealt)
