"""What a run left on disk: its cluster, its result, and where its records are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from autosync.errors import AutosyncError
from autosync.runs import is_run, records_of, result_of, run_document
from autosync.spec import ClusterSpec, RuntimeRecord, Strategy

__all__ = ["Run", "find_run"]


@dataclass(frozen=True)
class Run:
    """A run's `directory`, None when there is none, and the directory of records `data`."""

    directory: Path | None
    data: Path | None

    @property
    def model_digest(self) -> str | None:
        return str(self._document["model_digest"]) if self._document else None

    @property
    def cluster(self) -> ClusterSpec | None:
        return ClusterSpec.from_json(self._document["cluster"]) if self._document else None

    def records(self) -> list[RuntimeRecord]:
        """The records of the run's model, or all there are without a run. Raises `DatasetError`."""
        if self.data is None:
            return []
        from autosync.dataset import RecordStore  # pyarrow

        return RecordStore(self.data).read(model_digest=self.model_digest)

    def finding(self, strategy: Strategy) -> str | None:
        """What the run measured of this strategy, in words; None when it did not."""
        result = result_of(self.directory) if self.directory else None
        for row in result["strategies"] if result else ():
            if row["strategy_digest"] == strategy.digest and row["median_seconds"] and row["median_interval_seconds"]:
                low, high = (1e3 * each for each in row["median_interval_seconds"])
                return (
                    f"Measured in that run: {1e3 * row['median_seconds']:.1f} ms a step, median of {row['steps']} "
                    f"(95 % interval {low:.1f} to {high:.1f})."
                )
        return None

    @cached_property
    def _document(self) -> dict[str, Any] | None:
        return run_document(self.directory) if self.directory else None


def find_run(given: Path | None, beside: Path) -> Run:
    """The run or records that `given` names; without it the run that the strategy lies in, and records in `data`."""
    if given is None:
        run = Run(beside if is_run(beside) else None, None)
        return Run(run.directory, records_of(run.directory, run._document or {}))
    directory = given.parent if given.is_file() else given
    if is_run(directory):
        return Run(directory, records_of(directory, Run(directory, None)._document or {}))
    if directory.is_dir() and any(directory.glob("*.parquet")):
        return Run(beside if is_run(beside) else None, directory)
    raise AutosyncError(f"--result names a run's directory, its result.json or a directory of records, not {given}.")
