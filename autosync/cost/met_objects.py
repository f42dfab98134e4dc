"""Numbers of objects that were met before, looked up by identity, thousands at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import numpy as np
import numpy.typing as npt

__all__ = ["UNMET", "MetObjects"]

IntArray = npt.NDArray[np.intp]

UNMET = -2
"""Stand-in for the number of an object that is not known."""

BITS = 18
MOST = 1 << (BITS - 1)
"""The most objects kept. When there are more, all are forgotten: those still in use are soon met again."""

SPREADING = 0x9E3779B97F4A7C15
"""The factor of Knuth's multiplicative hashing, 2^64 over the golden ratio: the product's first bits are the slot."""


@final
class MetObjects:
    """A hash table of addresses in two layers; an object that finds its slot taken in both is not known.

    Objects are kept, so that no other comes to lie at the address of one.
    """

    def __init__(self) -> None:
        self._forget()

    def add(self, met: Sequence[object], numbers: Sequence[int]) -> None:
        """Give the objects `met`, none of which was known, these `numbers`, none of which is `UNMET`."""
        if len(self._kept) + len(met) > MOST:
            self._forget()
        self._kept.extend(met)
        addresses, given = _addresses(met), np.array(numbers, dtype=np.intp)
        for layer in range(2):
            slots = _slots(addresses)
            free = self._addresses[layer, slots] == 0
            self._addresses[layer, slots[free]], self._numbers[layer, slots[free]] = addresses[free], given[free]
            left = self._addresses[layer, slots] != addresses  # two of `met` may have found one slot free
            addresses, given = addresses[left], given[left]

    def numbers_of(self, objects: Sequence[object]) -> IntArray:
        """The numbers of the objects, or `UNMET`; int (n,)."""
        addresses = _addresses(objects)
        slots = _slots(addresses)
        numbers = np.where(self._addresses[0, slots] == addresses, self._numbers[0, slots], UNMET)
        missed = np.flatnonzero(numbers == UNMET)
        slots = slots[missed]
        numbers[missed] = np.where(self._addresses[1, slots] == addresses[missed], self._numbers[1, slots], UNMET)
        return numbers

    def _forget(self) -> None:
        self._addresses, self._numbers = np.zeros((2, 2, 1 << BITS), dtype=np.intp)
        self._kept: list[object] = []


def _addresses(objects: Sequence[object]) -> IntArray:
    return np.fromiter(map(id, objects), np.intp, len(objects))


def _slots(addresses: IntArray) -> IntArray:
    spread = addresses.astype(np.uint64) * np.uint64(SPREADING)
    return np.asarray(spread >> np.uint64(64 - BITS), dtype=np.intp)
