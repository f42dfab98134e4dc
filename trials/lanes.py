"""Lanes: places where one trial at a time runs; trials on different lanes run side by side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, final

from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord
from trials.backends.base import Backend
from trials.request import TrialRequest

__all__ = ["Lanes", "OneLane", "RunOnLane"]

RunOnLane = Callable[[str, TrialRequest], RuntimeRecord]
"""Runs one trial on the lane of that name; it can be sent to another process."""


class Lanes(Protocol):
    """Trials of one model on clusters that are alike. A lane that is taken runs one trial, and is then given back."""

    @property
    def model(self) -> ModelSpec: ...

    @property
    def cluster(self) -> ClusterSpec: ...

    def take(self) -> str | None:
        """A lane on which a trial can start now, or None when all are busy or being made.

        Raises `TrialError` when none will ever be free.
        """
        ...

    def give_back(self, lane: str) -> None:
        """The trial on `lane` is over, whatever became of it."""
        ...

    def runner(self) -> RunOnLane:
        """What runs a trial on a lane that was taken."""
        ...


@final
class OneLane:
    """A back end as the only lane."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._taken = False

    @property
    def model(self) -> ModelSpec:
        return self._backend.model

    @property
    def cluster(self) -> ClusterSpec:
        return self._backend.cluster

    def take(self) -> str | None:
        if self._taken:
            return None
        self._taken = True
        return "lane0"

    def give_back(self, lane: str) -> None:
        assert lane == "lane0", lane
        self._taken = False

    def runner(self) -> RunOnLane:
        backend = self._backend
        return lambda _lane, request: backend.run(request)
