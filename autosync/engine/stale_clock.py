"""The clock of stale-synchronous training: which worker may begin its next step, and who has to wait."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import final

__all__ = ["StaleClock"]


@final
class StaleClock:
    """Steps are numbered from 0; every worker makes each of them once, in order.

    A step is *applied* once all workers' gradients of it are there. A worker may begin step c when c has been asked for
    and is at most `staleness` ahead of the first step not yet applied (stale-synchronous parallel, Ho et al. 2013).
    It is safe to call from many threads.
    """

    def __init__(self, workers: int, staleness: int) -> None:
        self.staleness = staleness
        self.lags: Counter[int] = Counter()
        """How often workers began a step, by how many steps it was ahead of the first one not yet applied."""
        self._next = [0] * workers
        self._finished = [0] * workers
        self._asked = self._applied = 0
        self._failure: BaseException | None = None
        self._closed = False
        self._changed = threading.Condition()
        self._applying = threading.Lock()

    @property
    def applied(self) -> int:
        """How many steps have been applied."""
        return self._applied

    @property
    def asked(self) -> int:
        """How many steps have been asked for."""
        return self._asked

    def ask(self) -> None:
        """Ask for one more step."""
        with self._changed:
            self._asked += 1
            self._changed.notify_all()

    def begin(self, worker: int) -> int | None:
        """Wait until `worker` may begin its next step; the number of it, or None when there will be no more."""
        with self._changed:
            step = self._next[worker]
            self._changed.wait_for(lambda: self._ended() or (step < self._asked and step <= self._limit()))
            if self._ended():
                return None
            self._next[worker] += 1
            self.lags[step - self._applied] += 1
            return step

    def finish(self, worker: int, apply: Callable[[int], None]) -> None:
        """Note that `worker` has pushed its gradients; `apply(step)` is called for every step that this completes.

        Steps are applied one after the other, by the thread that completes them, while others go on.
        """
        with self._changed:
            self._finished[worker] += 1
            complete = min(self._finished)
        with self._applying:
            while self._applied < complete:
                apply(self._applied)
                with self._changed:
                    self._applied += 1
                    self._changed.notify_all()

    def wait(self, behind: int) -> None:
        """Wait until no more than `behind` of the steps asked for are not applied. Raises what made a worker fail."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended() or self._asked - self._applied <= behind)
            if self._failure is not None:
                raise self._failure

    def fail(self, error: BaseException) -> None:
        """Let nobody begin another step, and tell whoever waits why."""
        with self._changed:
            self._failure = self._failure or error
            self._changed.notify_all()

    def close(self) -> None:
        """Let no worker begin another step."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _limit(self) -> int:
        return self._applied + self.staleness

    def _ended(self) -> bool:
        return self._closed or self._failure is not None
