"""The state of a training step as arrays, and functions that cut and join arrays by shards."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autosync.layout.shards import Shard
from autosync.numeric import AnyArray


@dataclass(frozen=True)
class StepState:
    """Everything that the next step depends on.

    `synchronizer_state`, `own` and `controller` fit only the same strategy.
    """

    values: dict[str, AnyArray]
    """The value of each variable, in its shape; the mean over replicas if `own` is not empty."""
    slots: dict[str, tuple[AnyArray, ...]]
    """The optimizer slots of each variable, in its shape; means over replicas if `own` is not empty."""
    scalars: dict[str, tuple[AnyArray, ...]]
    """The optimizer's scalars (iteration, learning rate) by dtype."""
    replica_state: tuple[tuple[AnyArray, ...], ...]
    """The untrained state that each replica keeps for itself."""
    replica_steps: tuple[int, ...]
    """The number of synthetic batches that each replica has drawn."""
    synchronizer_state: tuple[AnyArray, ...]
    """The memory of compressors and of loss scaling."""
    own: tuple[AnyArray, ...] = ()
    """If replicas can have different values: the values and slots of every replica in its own layout, with the memory
    of outer optimizers. Empty if all replicas have `values` and `slots`."""
    controller: Mapping[str, Any] | None = None
    """The state of the controller that decides a discipline's steps; None without a controller."""


def join_shards(shards: Sequence[Shard], arrays: Sequence[AnyArray]) -> AnyArray:
    """Join the arrays of a variable's `shards`, in their order, to the variable's array; always a copy."""
    return np.concatenate(arrays, shards[0].slice.axis) if len(shards) > 1 else arrays[0].copy()


def flatten_shards(shards: Sequence[Shard], arrays: Mapping[str, AnyArray]) -> AnyArray:
    """Cut `shards` out of `arrays`, which are by variable, and return them flat and end to end."""
    return np.concatenate([_cut_shard(arrays[shard.variable.name], shard).reshape(-1) for shard in shards])


def _cut_shard(array: AnyArray, shard: Shard) -> AnyArray:
    if not shard.shape:
        return array
    where = [slice(None)] * array.ndim
    where[shard.slice.axis] = slice(shard.slice.start, shard.slice.start + shard.slice.size)
    return np.asarray(array[tuple(where)])
