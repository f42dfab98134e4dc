"""The all-reduce of a bucket by PyTorch's own collective."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import final

import torch

from autosync.engine.pytorch.exchange import leave
from autosync.engine.pytorch.place import Place
from autosync.engine.pytorch.plan import all_reduce_programs
from autosync.engine.pytorch.transport import Action
from autosync.layout.moves import Span


@final
class CollectiveAllReduce:
    """The mean by a collective. Gradients that are cast to bfloat16 are also added in bfloat16.

    All ranks start their collectives in the same order. Ranks without collectives run a ring.
    """

    memory: Mapping[str, torch.Tensor] = MappingProxyType({})

    def __init__(self, place: Place) -> None:
        self._place = place
        self._sums = place.array
        if place.bucket.cast is not None:
            self._sums = torch.empty(len(place.array), dtype=torch.bfloat16)
        self._collective = place.exchanges.of_collective(self._sums, self._divide)
        if self._collective is None:
            sums, topology = place.of(self._sums), place.bucket.topology
            programs = all_reduce_programs("ring", topology, len(self._sums), self._sums.dtype.itemsize)
            self._ring = sums.exchange(programs, leave)

    def start(self, step: int, priority: float, done: Action) -> None:
        if self._sums is not self._place.array:
            self._sums.copy_(self._place.array)
        if self._collective is None:
            self._ring.start(step, priority, partial(self._end, done))
        else:
            self._collective.start(step, priority, done)

    def _end(self, done: Action) -> None:
        self._divide((0, len(self._sums)))
        done()

    def _divide(self, span: Span) -> None:
        """Turn the complete sum of the whole array into the mean."""
        if self._sums is not self._place.array:
            self._place.array.copy_(self._sums)
        self._place.divide(span)
