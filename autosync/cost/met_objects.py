"""Numbers of objects that were met before, looked up by identity, thousands at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

import numpy as np
import numpy.typing as npt

__all__ = ["UNMET", "MetObjects"]

IntArray = npt.NDArray[np.intp]

UNMET = -2
"""In place of the number of an object that is not known."""

BITS = 16
MOST = 1 << (BITS - 1)
"""Objects kept. When there are more, all are forgotten: those still in use are soon met again."""

SPREADING = 0x9E3779B97F4A7C15
"""Knuth's multiplicative hashing, by 2^64 over the golden ratio: the product's first bits are the slot."""


@final
class MetObjects:
    """A hash table of addresses in two layers; an object that finds its slot taken in both is not known.

    Objects are kept, so that no other comes to lie at the address of one.
    """

    def __init__(self) -> None:
        self._forget()

    def add(self, met: object, number: int) -> None:
        """From now on `met`, which was not known, has this number, which is not `UNMET`."""
        if len(self._kept) == MOST:
            self._forget()
        self._kept.append(met)
        address = np.array([id(met)])
        (slot,) = _slots(address)
        layer = int(self._addresses[0, slot] != 0)
        self._addresses[layer, slot], self._numbers[layer, slot] = id(met), number

    def numbers_of(self, objects: Iterable[object], count: int) -> IntArray:
        """The numbers of `count` objects, or `UNMET`; int (count,)."""
        addresses = np.fromiter(map(id, objects), np.intp, count)
        slots = _slots(addresses)
        numbers = np.where(self._addresses[0, slots] == addresses, self._numbers[0, slots], UNMET)
        missed = np.flatnonzero(numbers == UNMET)
        slots = slots[missed]
        numbers[missed] = np.where(self._addresses[1, slots] == addresses[missed], self._numbers[1, slots], UNMET)
        return numbers

    def _forget(self) -> None:
        self._addresses, self._numbers = np.zeros((2, 2, 1 << BITS), dtype=np.intp)
        self._kept: list[object] = []


def _slots(addresses: IntArray) -> IntArray:
    spread = addresses.astype(np.uint64) * np.uint64(SPREADING)
    return np.asarray(spread >> np.uint64(64 - BITS), dtype=np.intp)
