"""One search at work: what was asked, where it is kept, what runs its trials."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from rich.console import Console

from autosync.dataset import RecordStore
from autosync.tune.options import TuneOptions
from autosync.tune.run_directory import RunDirectory
from trials.backends.base import Backend

__all__ = ["Job"]


@dataclass(frozen=True)
class Job:
    """What every part of a search needs. `begin` is when it was asked for, on the monotonic clock."""

    options: TuneOptions
    directory: RunDirectory
    store: RecordStore
    backend: Backend
    console: Console
    begin: float = field(default_factory=time.monotonic)

    @property
    def seconds_gone(self) -> float:
        return time.monotonic() - self.begin
