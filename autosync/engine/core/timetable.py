"""Computes arrival times of replicas whose pass durations are known in advance, and records the passes of steps."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from autosync.numeric import FloatArray


@dataclass(frozen=True)
class Ends:
    """The passes of a step. All times are in seconds; the arrays are float64 (replicas,)."""

    arrivals: tuple[float | None, ...]
    """From the start of the step to the end of each pass that the step waits for; None for the other replicas. If a
    replica started before the step, from the replica's own start."""
    delays: FloatArray
    """From the start of the step to the start of each pass; 0 for passes that started before the step."""
    waited: FloatArray
    """The time for which the step waits for each pass after its delay."""
    took: FloatArray
    """From the start of the step to the end of the pass or of the step's wait. If a replica started before the step,
    the length of its pass."""


@dataclass(frozen=True)
class TakenPasses:
    """The passes of one step, in seconds."""

    seconds: FloatArray
    """The requested length of each replica's pass, (replicas,)."""
    late: FloatArray
    """The lateness of each release, (replicas, releases). The last release ends a pass."""


@final
class Timetable:
    """The ends of passes, in steps that may wait for only the first replicas.

    If a replica has a rate, `rate` examples a second arrive while steps run. A pass begins once all of its examples
    have arrived; further examples wait in an unbounded buffer. If the step does not wait for a pass, its examples stay
    in the buffer.

    After a step without synchronization each replica continues as soon as its own pass ends, so until the next
    synchronization each replica takes the sum of its passes. The rest of a step counts for all replicas, as if they
    waited for each other.
    """

    def __init__(
        self, rates: Sequence[float | None], stops: bool, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        """`rates` are in examples a second, None for a replica without a stream.

        If `stops`, late passes are aborted at the end of a step. Otherwise they continue until their end by `clock`.
        """
        self._stops = stops
        self._clock = clock
        self._rates = np.array([np.inf if rate is None else rate for rate in rates])
        self._streams = np.isfinite(self._rates)
        self._buffered = np.zeros(len(rates))
        self._free = np.full(len(rates), -np.inf)
        self._ahead = np.zeros(len(rates))
        self._begun = 0.0
        self._begins = self._ends = self._taken = np.zeros(len(rates))
        self._late = np.zeros(len(rates), bool)

    @property
    def buffered(self) -> tuple[float | None, ...]:
        """The number of buffered examples at each replica; None for a replica without a stream."""
        return tuple(
            float(examples) if streams else None
            for examples, streams in zip(self._buffered, self._streams, strict=True)
        )

    def begin(
        self,
        seconds: FloatArray,
        examples: Sequence[float],
        wanted: Sequence[bool],
        first: int | None = None,
        apart: bool = False,
    ) -> Ends:
        """Begin a step whose passes take `seconds` (replicas,) and compute `examples`; return the ends of its passes.

        The step waits for the `first` of the `wanted` replicas, or for all of them. Among passes with the same end the
        lower replica comes first. If replicas stay `apart`, no replica waits for another.
        """
        now = self._begun = self._clock()
        lacking = np.maximum(np.asarray(examples) - self._buffered, 0.0)
        delays = np.where(self._streams, lacking / self._rates, 0.0)
        delays = np.maximum(delays, self._free - now)
        begins = np.where(delays > 0, delays, -self._ahead)
        own_ends = begins + seconds  # negative for a pass that ended before the step began
        ends = np.maximum(own_ends, 0.0)
        counts = min(len(ends) if first is None else first, sum(wanted))
        order = np.argsort(np.where(wanted, ends, np.inf), kind="stable")[:counts]
        counted = np.isin(np.arange(len(ends)), order)
        self._begins, self._ends = now + delays, now + ends
        self._late = np.asarray(wanted) & ~counted
        self._taken = np.where(counted, examples, 0)
        self._ahead = own_ends.max() - own_ends if apart else np.zeros(len(own_ends))
        waited = np.minimum(ends, ends[order[-1]])
        took = np.where(begins < 0, seconds, waited)
        arrivals = tuple(float(end) if is_counted else None for end, is_counted in zip(took, counted, strict=True))
        delays = np.minimum(delays, waited)
        return Ends(arrivals, delays, waited - delays, took)

    def end(self) -> None:
        """End the step.

        A late pass that began keeps its replica busy until the pass's end. A replica that was still busy with an
        earlier pass for the whole step has begun no pass in it.
        """
        now = self._clock()
        if not self._stops:
            self._free = np.where(self._late & (self._begins < now), self._ends, self._free)
        come = np.where(self._streams, self._rates, 0.0) * (now - self._begun)
        self._buffered = np.maximum(self._buffered + come - self._taken, 0.0)
