"""Barriers between the threads of replicas. They admit replicas to a step and record which replicas arrive in time."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection
from typing import final


class Barrier:
    """A condition on which threads wait until the barrier is closed or a thread has failed."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._failure: BaseException | None = None
        self._closed = False

    def fail(self, error: BaseException) -> None:
        """Admit no thread from now on, and raise the first `error` in every thread that waits for a step."""
        with self._changed:
            self._failure = self._failure or error
            self._changed.notify_all()

    def close(self) -> None:
        """Admit no thread from now on."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _is_over(self) -> bool:
        return self._closed or self._failure is not None

    def _raise_failure(self) -> None:
        """Raise the error of the thread that failed first, if one did."""
        if self._failure is not None:
            raise self._failure


@final
class FirstArrivals(Barrier):
    """Opens steps one after another, each until enough replicas have arrived (K-sync SGD). Safe for many threads."""

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
        """Let the `wanted` replicas begin `step`, and wait until `enough` of them have arrived.

        Returns the arrival of each of these replicas in seconds from the start of the step. Afterwards no replica
        begins a pass until the next step is opened. Raises the error of a replica that has failed.
        """
        with self._changed:
            self._step, self._begun, self._arrived = step, self._clock(), {}
            self._wanted, self._enough = wanted, enough
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._is_over() or len(self._arrived) == enough)
            self._raise_failure()
            self._step = None
            return dict(self._arrived)

    def begin(self, replica: int) -> int | None:
        """Wait until `replica` may begin a pass; return the number of its step, or None if no more steps will come."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_over() or self._may_begin(replica))
            if self._is_over():
                return None
            self._computing.add(replica)
            return self._step

    def arrive(self, replica: int, step: int) -> None:
        """Record that `replica` has finished its pass of `step`; the pass counts if the step is still open."""
        with self._changed:
            self._computing.discard(replica)
            # The count is checked too: the thread in `open` may not have woken up yet to close the step.
            if step == self._step and len(self._arrived) < self._enough:
                self._arrived[replica] = self._clock() - self._begun
            self._changed.notify_all()

    def settle(self) -> None:
        """Wait until no replica computes. Raises the error of a replica that has failed."""
        with self._changed:
            self._changed.wait_for(lambda: self._failure is not None or not self._computing)
            self._raise_failure()

    def _may_begin(self, replica: int) -> bool:
        return self._step is not None and replica in self._wanted and replica not in self._arrived


@final
class StaleClock(Barrier):
    """Bounded staleness: every worker makes all steps, numbered from 0, in order. Safe for many threads.

    A step is *applied* once the gradients of all workers have arrived. A worker may begin step c if c has been asked
    for and is at most `staleness` ahead of the first step not yet applied (stale-synchronous parallel, Ho et al. 2013).
    """

    def __init__(self, workers: int, staleness: int) -> None:
        super().__init__()
        self.staleness = staleness
        self.lags: Counter[int] = Counter()
        """The number of begun passes, by the number of steps they were ahead of the first step not yet applied."""
        self._next = [0] * workers
        self._finished = [0] * workers
        self._asked = self._applied = 0
        self._applying = threading.Lock()

    @property
    def asked(self) -> int:
        """The number of steps asked for so far."""
        return self._asked

    def ask(self) -> None:
        """Ask for one more step."""
        with self._changed:
            self._asked += 1
            self._changed.notify_all()

    def begin(self, worker: int) -> int | None:
        """Wait until `worker` may begin its next step; return the step's number, or None if no more steps will come."""
        with self._changed:
            step = self._next[worker]
            self._changed.wait_for(lambda: self._is_over() or (step < self._asked and step <= self._limit()))
            if self._is_over():
                return None
            self._next[worker] += 1
            self.lags[step - self._applied] += 1
            return step

    def finish(self, worker: int, apply: Callable[[int], None]) -> None:
        """Record that `worker` has pushed its gradients; call `apply(step)` for every step that is complete now.

        The thread that completes a step applies it. Steps are applied one after another, while other threads continue.
        """
        with self._changed:
            self._finished[worker] += 1
            complete = min(self._finished)
        # A second lock keeps updates in order without blocking threads that only ask or begin.
        with self._applying:
            while self._applied < complete:
                apply(self._applied)
                with self._changed:
                    self._applied += 1
                    self._changed.notify_all()

    def wait(self, behind: int) -> None:
        """Wait until at most `behind` of the steps asked for are not applied yet. Raises a failed worker's error."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_over() or self._asked - self._applied <= behind)
            self._raise_failure()

    def _limit(self) -> int:
        return self._applied + self.staleness
