"""Who may begin a pass, and who has come in time, where that is found out."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from typing import final


@final
class Arriving:
    """One step after the other is open to replicas, until enough of them have come. Safe to call from many threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._step: int | None = None
        self._begun = 0.0
        self._wanted: Collection[int] = ()
        self._arrived: dict[int, float] = {}
        self._enough = 0
        self._computing: set[int] = set()
        self._failure: BaseException | None = None
        self._closed = False

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
            if self._failure is not None:
                raise self._failure
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

    def arrive(self, replica: int, step: int) -> bool:
        """Whether the pass that `replica` has finished counts in `step`."""
        with self._changed:
            self._computing.discard(replica)
            counts = step == self._step and len(self._arrived) < self._enough
            if counts:
                self._arrived[replica] = self._clock() - self._begun
            self._changed.notify_all()
            return counts

    def settle(self) -> None:
        """Wait until no replica computes. Raises what made one fail."""
        with self._changed:
            self._changed.wait_for(lambda: self._failure is not None or not self._computing)
            if self._failure is not None:
                raise self._failure

    def fail(self, error: BaseException) -> None:
        """Let nobody begin another pass, and tell whoever waits why."""
        with self._changed:
            self._failure = self._failure or error
            self._changed.notify_all()

    def close(self) -> None:
        """Let nobody begin another pass."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _may_begin(self, replica: int) -> bool:
        return self._step is not None and replica in self._wanted and replica not in self._arrived

    def _ended(self) -> bool:
        return self._closed or self._failure is not None
