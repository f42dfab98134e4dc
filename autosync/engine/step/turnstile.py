"""What threads wait at, until it is closed or one of them has failed."""

from __future__ import annotations

import threading


class Turnstile:
    """A condition on which threads wait; who waits for their work is told why there will be no more."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._failure: BaseException | None = None
        self._closed = False

    def fail(self, error: BaseException) -> None:
        """Let nobody begin anything more, and tell whoever waits why."""
        with self._changed:
            self._failure = self._failure or error
            self._changed.notify_all()

    def close(self) -> None:
        """Let nobody begin anything more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _ended(self) -> bool:
        return self._closed or self._failure is not None

    def _tell_failure(self) -> None:
        """Raise what made a thread fail, if one did."""
        if self._failure is not None:
            raise self._failure
