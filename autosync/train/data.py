"""Sources of batches: anything that can be iterated, or readers that run beside the replicas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, final

import numpy as np
import numpy.typing as npt

from autosync.engine.strings import WITHOUT_TEXT, is_text
from autosync.errors import TrainingError

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
    if isinstance(targets, Weighted):
        yield from _leaves("targets", targets.targets)
        yield from _leaves("weights", targets.weights)
    else:
        yield from _leaves("targets", targets)


class Weighted(NamedTuple):
    """The targets of a batch with a weight for each example."""

    targets: Any
    weights: Any


def as_arrays(batch: Any) -> tuple[Any, Any]:
    """(inputs, targets) with NumPy arrays instead of tensors and of lists of numbers. Raises `TrainingError`.

    A batch (inputs, targets, weights) gets targets that are `Weighted`.
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
        return {key: _as_arrays(f"{name}[{key!r}]", each) for key, each in value.items()}
    if isinstance(value, tuple) or (isinstance(value, list) and value and hasattr(value[0], "shape")):
        return tuple(_as_arrays(f"{name}[{index}]", each) for index, each in enumerate(value))
    array = np.asarray(value)
    if is_text(array):
        raise TrainingError(f"{name} of a batch must be numbers, but holds strings, {WITHOUT_TEXT}.")
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


@final
@dataclass(frozen=True)
class Synthetic:
    """The batches that a model of the zoo draws by itself, a sequence without end that depends on the step alone."""


@final
@dataclass(frozen=True)
class Sharded:
    """Data read by the worker processes themselves: no batch passes through the caller or the client.

    `dataset_fn(shard, shards)` gives an iterable of batches (inputs, targets) for replica number `shard` of `shards`.
    It is called in the process that hosts the replica, once for every pass over the data, and read ahead there. A
    replica's batch is its own part of the step's batch: `shards` times as many examples train in a step. Shards may
    differ in length; a pass ends with the longest one.
    """

    dataset_fn: Callable[[int, int], Iterable[Any]]

    def first(self, shards: int) -> Any:
        """One batch, read here, to learn the form of all."""
        return next(iter(self.dataset_fn(0, shards)), None)

    def opened(self, shards: int) -> Callable[[int, int], Iterable[Any]]:  # noqa: ARG002 - as `RayBatches.opened`
        """The function that reads a shard, called in the process that does."""
        return self.dataset_fn


@final
@dataclass(frozen=True)
class RayBatches:
    """Batches of a `ray.data.Dataset`, whose columns `inputs` and `targets` are.

    Each is a column's name, or several, of which a dictionary is made. With `sharded` the data set is split over the
    replicas (`streaming_split`) and each worker reads its part, `batch_size` examples a step; without it the caller
    reads, and `batch_size` is the step's. The data set must give its batches as NumPy arrays, as columns of numbers do.
    """

    dataset: Any
    batch_size: int
    inputs: str | Sequence[str]
    targets: str | Sequence[str]
    sharded: bool = True

    def __iter__(self) -> Iterator[Any]:
        return map(self.pair, self.dataset.iter_batches(batch_size=self.batch_size, batch_format="numpy"))

    def pair(self, columns: Mapping[str, npt.NDArray[Any]]) -> tuple[Any, Any]:
        """(inputs, targets) of one batch of columns."""
        return _chosen(columns, self.inputs), _chosen(columns, self.targets)

    def first(self, shards: int) -> Any:  # noqa: ARG002 - as `Sharded.first`
        """One batch, read here, to learn the form of all."""
        return next(iter(self), None)

    def opened(self, shards: int) -> Callable[[int, int], Iterable[Any]]:
        """A reader for each shard, which may be sent to another process of the same Ray."""
        parts = self.dataset.streaming_split(shards, equal=False)
        return _RayReader(parts, replace(self, dataset=None))


@dataclass(frozen=True)
class _RayReader:
    """Reads the shards `parts` as `batches`, which has no data set of its own, says."""

    parts: Sequence[Any]
    batches: RayBatches

    def __call__(self, shard: int, shards: int) -> Iterator[Any]:
        assert shards == len(self.parts)
        return iter(replace(self.batches, dataset=self.parts[shard]))


@dataclass(frozen=True)
class FlatReader:
    """The batches of one shard as flat lists of arrays of `form`; goes to the worker processes as it is."""

    dataset_fn: Callable[[int, int], Iterable[Any]]
    form: BatchForm

    def __call__(self, shard: int, shards: int) -> Iterator[list[npt.NDArray[Any]]]:
        return (self.form.flat(batch) for batch in self.dataset_fn(shard, shards))


def _chosen(columns: Mapping[str, npt.NDArray[Any]], names: str | Sequence[str]) -> Any:
    if isinstance(names, str):
        return np.asarray(columns[names])
    return {name: np.asarray(columns[name]) for name in names}


@dataclass(frozen=True)
class Share:
    """Examples `begin` to `end` of a batch; `counted` of them count."""

    begin: int
    end: int
    counted: int


def shares(examples: int, replicas: int) -> tuple[Share, ...]:
    """A batch of `examples` dealt out as evenly as can be; the first replicas get one more.

    A replica for which none is left runs a copy of the first example, which does not count: every replica takes part
    in every step.
    """
    each, more = divmod(examples, replicas)
    dealt, begin = [], 0
    for replica in range(replicas):
        size = each + (replica < more)
        dealt.append(Share(begin, begin + size, size) if size else Share(0, 1, 0))
        begin += size
    return tuple(dealt)
