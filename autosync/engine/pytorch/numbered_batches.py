"""The batches of a DataLoader by number, so that every replica reads its own, and a resumed run reads on."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, final

import torch
from torch.utils.data import DataLoader, IterableDataset, RandomSampler, SequentialSampler

from autosync.errors import ModelError


@final
class NumberedBatches:
    """An endless sequence of batches: epoch after epoch, each in an order that depends only on the epoch's number.

    A batch is read when it is asked for, in the caller's thread. Examples that fill no whole batch at the end of an
    epoch are left out.
    """

    def __init__(self, loader: DataLoader[Any], builder: str) -> None:
        """Take data set, batch size, order and `collate_fn` from the `loader` that the function `builder` returned.

        Raises `ModelError` for a loader whose batches have no numbers.
        """
        dataset: Any = loader.dataset
        sampler = loader.sampler
        if isinstance(dataset, IterableDataset):
            raise ModelError(f"{builder!r}: the DataLoader's data set must have examples by number (map-style).")
        is_shuffled = type(sampler) is RandomSampler and not sampler.replacement
        if loader.batch_size is None or not (is_shuffled or type(sampler) is SequentialSampler):
            raise ModelError(
                f"{builder!r}: the DataLoader must have a batch_size and no sampler of its own; give it shuffle=True "
                "or shuffle=False."
            )
        self._dataset = dataset
        self._size = loader.batch_size
        self._is_shuffled = is_shuffled
        self._join = loader.collate_fn
        self._examples = len(dataset)
        if self._examples < self._size:
            raise ModelError(
                f"{builder!r}: the DataLoader has {self._examples} examples, too few for a batch of {self._size}."
            )

    def read(self, number: int) -> Any:
        """The batch `number`, counted from 0 over all epochs."""
        epoch, place = divmod(number, self._examples // self._size)
        order = _shuffle(self._examples, epoch) if self._is_shuffled else range(self._examples)
        chosen = order[place * self._size : (place + 1) * self._size]
        many = getattr(self._dataset, "__getitems__", None)  # as DataLoader reads a batch
        return self._join([self._dataset[example] for example in chosen] if many is None else many(list(chosen)))


@lru_cache(maxsize=2)
def _shuffle(examples: int, epoch: int) -> Sequence[int]:
    """The numbers of all examples in the order of `epoch`, the same on all replicas."""
    order: list[int] = torch.randperm(examples, generator=torch.Generator().manual_seed(epoch)).tolist()
    return order
