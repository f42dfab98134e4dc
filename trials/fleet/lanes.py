"""Lanes: each runs one trial at a time, and trials on different lanes run side by side."""

from collections.abc import Callable, Collection
from typing import Protocol, runtime_checkable

from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, TargetRecord
from trials.to_target import TargetRequest
from trials.trial import TrialRequest

RunOnLane = Callable[[str, TrialRequest], RuntimeRecord]
"""A function that runs one trial on the lane of that name; it can be sent to another process."""


class Lanes(Protocol):
    """Runs trials of one model on clusters that are alike.

    A caller takes a lane for one trial, and then gives it back.
    """

    @property
    def model(self) -> ModelSpec: ...

    @property
    def cluster(self) -> ClusterSpec: ...

    def take(self) -> str | None:
        """Return a lane on which a trial can start now, or None if all are busy or being started.

        Raises `TrialError` if none will ever be free.
        """
        ...

    def give_back(self, lane: str, failure: str = "") -> None:
        """Give back `lane` after its trial. With a `failure`, no trial can run there any more, and the lane is given
        up.

        Raises `TrialError` if it was the last lane.
        """
        ...

    def runner(self) -> RunOnLane:
        """Return a function that runs a trial on a lane that was taken."""
        ...


@runtime_checkable
class SideBySide(Protocol):
    """A back end with lanes, which runs several requests at once."""

    def train_side_by_side(
        self,
        following: Callable[[Collection[TargetRequest]], TargetRequest | None],
        keep: Callable[[TargetRecord], None],
    ) -> None:
        """Train until no request follows and none is under way; see `Fleet.train_side_by_side`."""
        ...


class Backend(Protocol):
    """Runs trials of one model on one cluster, one at a time.

    `run` times steps, and `train` trains to a target. A strategy that fails, hangs or gives NaN produces a record with
    a reason. Both raise `TrialError` only if no trial can be run any more. `close` ends every process that the back end
    started; a second call does nothing.
    """

    @property
    def model(self) -> ModelSpec: ...

    @property
    def cluster(self) -> ClusterSpec: ...

    def run(self, request: TrialRequest) -> RuntimeRecord: ...

    def train(self, request: TargetRequest) -> TargetRecord: ...

    def close(self) -> None: ...
