"""The bytes in which numbers travel between ranks: as they are, or rounded to 16 bits.

Rounding, its bounds, and the scale of a message in fp16 are those of `engine/tensorflow/sync/wire.py`. A message in
fp16 begins with the inverse of its power of two, a float32; its numbers follow. A message in bf16 has numbers only.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

import torch

from autosync.layout.coding import CAST_BYTES
from autosync.layout.exchange import SCALE_BYTES
from autosync.layout.moves import Span
from autosync.spec import Cast

FLOAT32_BIAS, FLOAT32_MANTISSA_BITS = 127, 23
LARGEST_EXPONENT = 14  # largest exponent in a float16 message; float16's own is 15, which rounding up must not reach
LARGEST_POWER = 126  # largest exponent of the power of two, so that its inverse is a normal float32


@final
@dataclass(frozen=True)
class WireForm:
    """The form of messages of float numbers: rounded to the type of `cast`, or in full precision for None."""

    cast: Cast | None = None

    @property
    def scale_bytes(self) -> int:
        return SCALE_BYTES if self.cast is not None and self.cast.dtype == "fp16" else 0

    def size(self, elements: int, dtype: torch.dtype) -> int:
        """The bytes of a message of `elements` numbers that are `dtype` before and after."""
        return self.scale_bytes + elements * (dtype.itemsize if self.cast is None else CAST_BYTES)

    def buffer(self, values: torch.Tensor) -> torch.Tensor:
        """The memory, uint8 (bytes,), for messages of the flat contiguous `values`: their own if they are not cast."""
        if self.cast is None:
            return values.view(torch.uint8)
        return torch.empty(self.size(len(values), values.dtype), dtype=torch.uint8)

    def write(self, values: torch.Tensor, message: torch.Tensor) -> None:
        """Encode `values` to `message`, which `buffer` made."""
        if self.cast is None:
            return
        numbers = message[self.scale_bytes :]
        if self.cast.dtype == "bf16":
            numbers.view(torch.bfloat16).copy_(values)
            return
        exponent = _exponent(values)
        struct.pack_into("=f", message.numpy().data, 0, 2.0**-exponent)
        numbers.view(torch.float16).copy_(values * 2.0**exponent)

    def read(self, message: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """The numbers of `message` as `dtype`; a message that was not cast is read in place."""
        if self.cast is None:
            return message.view(dtype)
        numbers = message[self.scale_bytes :]
        if self.cast.dtype == "bf16":
            return numbers.view(torch.bfloat16).to(dtype)
        (scale,) = struct.unpack_from("=f", message.numpy().data)
        return numbers.view(torch.float16).to(dtype).mul_(scale)


PLAIN = WireForm()


def _exponent(values: torch.Tensor) -> int:
    """The exponent of the power of two for a message in fp16, from the bits of the largest magnitude."""
    if not len(values):
        return 0
    largest = int(values.abs().amax().to(torch.float32).view(torch.int32))
    biased = largest >> FLOAT32_MANTISSA_BITS & 0xFF
    return min(LARGEST_EXPONENT + FLOAT32_BIAS - biased, LARGEST_POWER)


@final
class CastResults:
    """The results of an all-reduce as they travel: finished spans, each a message of its own, end to end.

    The rank that finishes a span reads its own message, too, so all ranks have the same bits.
    """

    def __init__(self, wire: WireForm, results: torch.Tensor, finished: Iterable[Span]) -> None:
        """`finished` are the spans that any rank finishes; together they cover the flat array `results`."""
        self._wire = wire
        self._results = results
        self._spans = sorted(finished)
        self._begins = [begin for begin, _ in self._spans]
        self._data = torch.empty(self._offset(len(results)), dtype=torch.uint8)

    def message(self, span: Span) -> torch.Tensor:
        """The memory, uint8 (bytes,), of one or several finished spans that together are `span`."""
        return self._data[self._offset(span[0]) : self._offset(span[1])]

    def write(self, span: Span) -> None:
        """Encode the finished `span`, and round the result as all ranks read it."""
        self._wire.write(self._results[slice(*span)], self.message(span))
        self.read(span)

    def read(self, span: Span) -> None:
        """Decode the messages of `span` to the results."""
        for begin, end in self._spans[bisect_left(self._begins, span[0]) : bisect_left(self._begins, span[1])]:
            self._results[begin:end] = self._wire.read(self.message((begin, end)), self._results.dtype)

    def _offset(self, element: int) -> int:
        """The first byte of the message that begins with `element`."""
        return CAST_BYTES * element + self._wire.scale_bytes * bisect_left(self._begins, element)
