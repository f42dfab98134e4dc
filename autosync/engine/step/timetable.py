"""Who is there when, where it is known beforehand how long each replica's pass takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Ends:
    """The passes of a step, in seconds after its beginning.

    `arrivals` are the ends of those that it waits for, and None for the others; `waited`, float64 (replicas,), is how
    long each one's is waited for.
    """

    arrivals: tuple[float | None, ...]
    waited: Array


@final
class Timetable:
    """When passes end in steps that wait for the first so many replicas only."""

    def __init__(self, replicas: int, stops: bool, clock: Callable[[], float] = time.perf_counter) -> None:
        """The late stop, or else finish their pass, by `clock`, and begin the next one then."""
        self._stops = stops
        self._clock = clock
        self._free = np.full(replicas, -np.inf)
        self._begins = self._ends = self._free
        self._late = np.zeros(replicas, bool)

    def begin(self, seconds: Array, wanted: Sequence[bool], first: int) -> Ends:
        """A step begins which waits for the `first` of the `wanted` replicas; their passes take `seconds` (replicas,).

        Where fewer are wanted it waits for all of these. Of passes that end at once the first replica's comes first.
        """
        now = self._clock()
        self._begins = np.maximum(self._free, now)
        self._ends = self._begins + seconds
        order = np.argsort(np.where(wanted, self._ends, np.inf), kind="stable")[: min(first, sum(wanted))]
        counted = np.isin(np.arange(len(seconds)), order)
        self._late = np.asarray(wanted) & ~counted
        ends = self._ends - now
        arrivals = tuple(float(end) if counts else None for end, counts in zip(ends, counted, strict=True))
        return Ends(arrivals, np.minimum(ends, ends[order[-1]]))

    def end(self) -> None:
        """The step is over. Who was still late with another one's pass all the time has begun none in it."""
        if not self._stops:
            self._free = np.where(self._late & (self._begins < self._clock()), self._ends, self._free)
