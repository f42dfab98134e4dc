"""One search at work: what was asked, where it is kept, and what runs its trials."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from autosync.dataset import RecordStore
from autosync.spec import RuntimeRecord
from autosync.tune.options import TuneOptions
from autosync.tune.run_directory import RunDirectory
from trials.fleet import Fleet

__all__ = ["Job"]


@dataclass(frozen=True)
class Job:
    """What every part of a search needs. `begin` is when it was asked for, on the monotonic clock; for a resumed search
    it is put back by what earlier processes took.
    """

    options: TuneOptions
    directory: RunDirectory
    store: RecordStore
    backend: Fleet
    console: Console
    begin: float

    @property
    def seconds_gone(self) -> float:
        return time.monotonic() - self.begin

    def append(self, record: RuntimeRecord) -> None:
        """Keep `record` for good."""
        self.store.append(record)

    def save_state(self, state: dict[str, Any]) -> None:
        self.directory.write_state(state, self.seconds_gone)
