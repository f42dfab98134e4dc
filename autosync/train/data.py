"""Sources of batches: anything that can be iterated, or readers that run beside the replicas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt

from autosync.train.batch_form import BatchForm

__all__ = ["FlatReader", "RayBatches", "Sharded", "Synthetic"]


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
        return _RayReader(parts, self.batch_size, self.inputs, self.targets)


@dataclass(frozen=True)
class _RayReader:
    parts: Sequence[Any]
    batch_size: int
    inputs: str | Sequence[str]
    targets: str | Sequence[str]

    def __call__(self, shard: int, shards: int) -> Iterator[Any]:
        assert shards == len(self.parts)
        for columns in self.parts[shard].iter_batches(batch_size=self.batch_size, batch_format="numpy"):
            yield _chosen(columns, self.inputs), _chosen(columns, self.targets)


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
