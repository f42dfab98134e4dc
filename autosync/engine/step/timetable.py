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

    `arrivals` are the ends of those that it waits for, and None for the others; of a replica that went on before the
    step did, after its own beginning. Each one begins after `delays` and is waited for as long as `waited` says; it
    `took` so long, also before the step. All are float64 (replicas,).
    """

    arrivals: tuple[float | None, ...]
    delays: Array
    waited: Array
    took: Array


@final
class Timetable:
    """When passes end, in steps that may wait for the first so many replicas only.

    To a replica with a rate, examples come while steps run: so many a second. A pass begins once it has all of its own;
    the others wait in a buffer that has no end. There they stay if the pass is not waited for.

    From a step in which replicas do not meet each goes on when it is through itself, so that until they meet again each
    takes the sum of its passes. What steps take besides passes counts for all, as if they waited for each other there.
    """

    def __init__(
        self, rates: Sequence[float | None], stops: bool, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        """`rates` are in examples a second, None where all are there. Late passes stop, or are finished by `clock`."""
        self._stops = stops
        self._clock = clock
        self._rates = np.array([np.inf if each is None else each for each in rates])
        self._streams = np.isfinite(self._rates)
        self._buffered = np.zeros(len(rates))
        self._free = np.full(len(rates), -np.inf)
        self._ahead = np.zeros(len(rates))
        self._begun = 0.0
        self._begins = self._ends = self._taken = np.zeros(len(rates))
        self._late = np.zeros(len(rates), bool)

    @property
    def buffered(self) -> tuple[float | None, ...]:
        """How many examples wait at each replica; None where they come at no rate."""
        return tuple(
            float(each) if streams else None for each, streams in zip(self._buffered, self._streams, strict=True)
        )

    def begin(
        self,
        seconds: Array,
        examples: Sequence[float],
        wanted: Sequence[bool],
        first: int | None = None,
        apart: bool = False,
    ) -> Ends:
        """A step begins, whose passes take `seconds` (replicas,) and so many `examples`.

        It waits for the `first` of the `wanted` replicas, or for all of these. Of passes that end at once the first
        replica's comes first. If replicas stay `apart`, none is waited for by the others.
        """
        now = self._begun = self._clock()
        lacking = np.maximum(np.asarray(examples) - self._buffered, 0.0)
        delays = np.where(self._streams, lacking / self._rates, 0.0)
        delays = np.maximum(delays, self._free - now)
        begins = np.where(delays > 0, delays, -self._ahead)
        own = begins + seconds
        ends = np.maximum(own, 0.0)
        counts = min(len(ends) if first is None else first, sum(wanted))
        order = np.argsort(np.where(wanted, ends, np.inf), kind="stable")[:counts]
        counted = np.isin(np.arange(len(ends)), order)
        self._begins, self._ends = now + delays, now + ends
        self._late = np.asarray(wanted) & ~counted
        self._taken = np.where(counted, examples, 0)
        self._ahead = own.max() - own if apart else np.zeros(len(own))
        waited = np.minimum(ends, ends[order[-1]])
        took = np.where(begins < 0, seconds, waited)
        arrivals = tuple(float(end) if counts else None for end, counts in zip(took, counted, strict=True))
        delays = np.minimum(delays, waited)
        return Ends(arrivals, delays, waited - delays, took)

    def end(self) -> None:
        """The step is over. Who was still late with another one's pass all the time has begun none in it."""
        now = self._clock()
        if not self._stops:
            self._free = np.where(self._late & (self._begins < now), self._ends, self._free)
        come = np.where(self._streams, self._rates, 0.0) * (now - self._begun)
        self._buffered = np.maximum(self._buffered + come - self._taken, 0.0)
