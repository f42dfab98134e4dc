"""Top-k exchanges: a rank sends its largest elements and adds the rest to its next gradient.

The semantics are those of `engine/tensorflow/sync/top_k.py`: among equal magnitudes the lower index wins, and NaN
counts as infinite.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import partial
from typing import final

import torch

from autosync.engine.pytorch.feedback import UnsentRest, is_finite, memory_name
from autosync.engine.pytorch.place import Place
from autosync.engine.pytorch.transport import Action
from autosync.spec import TopK


@final
class OwnTopK:
    """Every rank sends its own k values and their indices to all others, or to a server; sums are in the replicas'
    order."""

    def __init__(self, place: Place, compressor: TopK) -> None:
        self._place = place
        self._feedback = UnsentRest(place.bucket.slices, place.array.dtype)
        self._kept = compressor.kept(len(place.array))
        self._gathering = place.gathering()
        self._answer = None if place.server is None else place.answer()

    @property
    def memory(self) -> Mapping[str, torch.Tensor]:
        return self._feedback.memory

    def start(self, step: int, priority: float, done: Action) -> None:
        total = self._feedback.add(self._place.array)
        places = largest(total, self._kept)
        part = torch.cat([total[places].view(torch.uint8), places.view(torch.uint8)]).numpy().data
        total[places] = 0
        self._gathering.start(step, priority, part, partial(self._add_up, step, priority, done))

    def _add_up(self, step: int, priority: float, done: Action) -> None:
        array = self._place.array
        if self._place.adds_up:
            array.zero_()
            for part in self._gathering.in_order:
                values = torch.frombuffer(part, dtype=array.dtype, count=self._kept)
                places = torch.frombuffer(part, dtype=torch.int32, offset=values.nbytes)
                array.index_add_(0, places, values)
        if self._answer is not None:
            self._answer.start(step, priority, partial(self._end, done))
            return
        self._place.divide((0, len(array)))
        self._end(done)

    def _end(self, done: Action) -> None:
        if is_finite(self._place.array):
            self._feedback.keep()
        done()


@final
class SharedTopK:
    """AR-Topk (Tyagi and Swany 2023, algorithm 1): all ranks use the indices of one sender, and all-reduce the values.

    With "star", the replicas take turns as the sender. With "var", the sender is the replica whose chosen values have
    the largest sum of squares (the first of equal ones). To find it, the replicas first exchange these sums, a float32
    each.
    """

    def __init__(self, place: Place, compressor: TopK) -> None:
        self._place = place
        self._feedback = UnsentRest(place.bucket.slices, place.array.dtype)
        self._values = torch.empty(compressor.kept(len(place.array)), dtype=place.array.dtype)
        self._squares = place.gathering() if compressor.indices == "var" else None
        self._indices = place.gathering()
        self._reduction = place.of(self._values).all_reduce()
        self._turn = torch.zeros((), dtype=torch.int32)
        """The replica whose turn it is."""
        self._total = self._chosen = torch.empty(0)
        """This step's gradients with their unsent rests, and the indices of this rank's largest of them."""

    @property
    def memory(self) -> Mapping[str, torch.Tensor]:
        if self._squares is not None:
            return self._feedback.memory
        first = min(self._place.bucket.slices, key=lambda part: (part.variable.name, part.index))
        return {**self._feedback.memory, memory_name(first, "turn"): self._turn}

    def start(self, step: int, priority: float, done: Action) -> None:
        self._total = self._feedback.add(self._place.array)
        self._chosen = largest(self._total, len(self._values))
        send = partial(self._send_indices, step, priority, done)
        if self._squares is None:
            send(int(self._turn))
            return
        squares = float(self._total[self._chosen].square().sum().to(torch.float32).nan_to_num(torch.inf, torch.inf))
        part = memoryview(struct.pack("=f", squares))
        self._squares.start(step, priority, part, lambda: send(self._loudest()))

    def _loudest(self) -> int:
        assert self._squares is not None
        squares = [struct.unpack("=f", part)[0] for part in self._squares.in_order]
        return squares.index(max(squares))

    def _send_indices(self, step: int, priority: float, done: Action, sender: int) -> None:
        part = self._chosen.view(torch.uint8).numpy().data
        reduce = partial(self._reduce, step, priority, done, sender)
        self._indices.start(step, priority, part, reduce, sender)

    def _reduce(self, step: int, priority: float, done: Action, sender: int) -> None:
        places = torch.frombuffer(self._indices.parts[sender], dtype=torch.int32)
        # The sender's indices may leave a number that is not finite unsent here, which must still fail the step.
        self._values.copy_(self._total[places])
        if not is_finite(self._total):
            self._values.fill_(torch.nan)
        self._total[places] = 0
        self._reduction.start(step, priority, partial(self._end, done, places))

    def _end(self, done: Action, places: torch.Tensor) -> None:
        self._place.array.zero_()
        self._place.array[places] = self._values
        if is_finite(self._values):
            self._feedback.keep()
            self._turn.copy_((self._turn + 1) % len(self._place.bucket.topology))
        done()


def largest(flat: torch.Tensor, count: int) -> torch.Tensor:
    """The int32 indices of the `count` elements of largest magnitude, in any order; among equal ones the first."""
    magnitudes = torch.where(flat.isnan(), torch.inf, flat.abs())
    smallest = torch.topk(magnitudes, count, sorted=True).values[-1]
    above = torch.nonzero(magnitudes > smallest)[:, 0]
    equal = torch.nonzero(magnitudes == smallest)[: count - len(above), 0]
    return torch.cat([above, equal]).to(torch.int32)
