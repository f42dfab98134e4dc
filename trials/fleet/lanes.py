"""Lanes: places where one trial at a time runs; trials on different lanes run side by side."""

from collections.abc import Callable
from typing import Protocol

from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, TargetRecord
from trials.to_target import TargetRequest
from trials.trial import TrialRequest

RunOnLane = Callable[[str, TrialRequest], RuntimeRecord]
"""A function that runs one trial on the lane of that name; it can be sent to another process."""


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

    def give_back(self, lane: str, failure: str = "") -> None:
        """Give back `lane`: its trial is over. With a `failure` no trial can run there any more, and it is given up.

        Raises `TrialError` when it was the last.
        """
        ...

    def runner(self) -> RunOnLane:
        """A function that runs a trial on a lane that was taken."""
        ...


class Backend(Protocol):
    """Runs trials of one model on one cluster, one at a time.

    `run`, which times steps, and `train`, to a target, never raise for a strategy that fails, hangs or gives NaN: that
    is a record with a reason. They raise `TrialError` only when no trial can be run any more. `close` ends every
    process it started; twice is fine.
    """

    @property
    def model(self) -> ModelSpec: ...

    @property
    def cluster(self) -> ClusterSpec: ...

    def run(self, request: TrialRequest) -> RuntimeRecord: ...

    def train(self, request: TargetRequest) -> TargetRecord: ...

    def close(self) -> None: ...
