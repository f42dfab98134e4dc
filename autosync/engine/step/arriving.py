"""Who may begin a pass, and who has come in time, where that is found out."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import final

from autosync.engine.step.turnstile import Turnstile


@final
class Arriving(Turnstile):
    """One step after the other is open to replicas, until enough of them have come. Safe to call from many threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._step: int | None = None
        self._begun = 0.0
        self._wanted: Collection[int] = ()
        self._arrived: dict[int, float] = {}
        self._enough = 0
        self._computing: set[int] = set()

    def open(self, step: int, wanted: Collection[int], enough: int) -> dict[int, float]:
        """Let the `wanted` replicas begin `step`, and wait until `enough` have come.

        By replica, how many seconds after the beginning each of these came. Nobody begins a pass from then on until the
        next step is opened. Raises what made a replica fail.
        """
        with self._changed:
            self._step, self._begun, self._arrived = step, self._clock(), {}
            self._wanted, self._enough = wanted, enough
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._ended() or len(self._arrived) == enough)
            self._tell_failure()
            self._step = None
            return dict(self._arrived)

    def begin(self, replica: int) -> int | None:
        """Wait until `replica` may begin a pass; the number of its step, or None when there will be no more."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended() or self._may_begin(replica))
            if self._ended():
                return None
            self._computing.add(replica)
            return self._step

    def arrive(self, replica: int, step: int) -> None:
        """Note that `replica` has finished its pass of `step`, which counts if that is still open."""
        with self._changed:
            self._computing.discard(replica)
            if step == self._step and len(self._arrived) < self._enough:
                self._arrived[replica] = self._clock() - self._begun
            self._changed.notify_all()

    def settle(self) -> None:
        """Wait until no replica computes. Raises what made one fail."""
        with self._changed:
            self._changed.wait_for(lambda: self._failure is not None or not self._computing)
            self._tell_failure()

    def _may_begin(self, replica: int) -> bool:
        return self._step is not None and replica in self._wanted and replica not in self._arrived
