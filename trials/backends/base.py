"""What every back end offers: run one request, give back one record, leave nothing behind."""

from __future__ import annotations

from typing import Protocol

from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord
from trials.request import TrialRequest

__all__ = ["Backend"]


class Backend(Protocol):
    """Runs trials of one model on one cluster, one at a time.

    `run` never raises for a strategy that fails, hangs or gives NaN: that is a record with a reason.
    It raises `TrialError` only when no trial can be run any more. `close` ends every process it started; twice is fine.
    """

    @property
    def model(self) -> ModelSpec: ...

    @property
    def cluster(self) -> ClusterSpec: ...

    def run(self, request: TrialRequest) -> RuntimeRecord: ...

    def close(self) -> None: ...
