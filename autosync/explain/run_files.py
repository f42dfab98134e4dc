"""What a run left on disk: its cluster, its result, and where its records are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from autosync.errors import AutosyncError
from autosync.runs import records_of
from autosync.spec import ClusterSpec, RuntimeRecord, Strategy, parse_json

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
        """Those of the run's model, or all there are without a run. Raises `DatasetError`."""
        if self.data is None:
            return []
        from autosync.dataset import RecordStore  # pyarrow

        return RecordStore(self.data).read(model_digest=self.model_digest)

    def finding(self, strategy: Strategy) -> str | None:
        """What the run measured of this strategy, in words; None when it did not."""
        file = self.directory / "result.json" if self.directory else None
        if file is None or not file.exists():
            return None
        for row in _read(file).get("strategies", ()):
            if row.get("strategy_digest") == strategy.digest and row.get("median_seconds"):
                low, high = (1e3 * each for each in row["median_interval_seconds"])
                return (
                    f"Measured in that run: {1e3 * row['median_seconds']:.1f} ms a step, median of {row['steps']} "
                    f"(95 % interval {low:.1f} to {high:.1f})."
                )
        return None

    @cached_property
    def _document(self) -> dict[str, Any] | None:
        return _read(self.directory / "run.json") if self.directory else None


def find_run(given: Path | None, beside: Path) -> Run:
    """The run or records that `given` names; without it the run that the strategy lies in, and records in `data`."""
    if given is None:
        run = Run(beside if (beside / "run.json").exists() else None, None)
        return Run(run.directory, records_of(run.directory, run._document or {}))
    directory = given.parent if given.is_file() else given
    if (directory / "run.json").exists():
        return Run(directory, records_of(directory, Run(directory, None)._document or {}))
    if directory.is_dir() and any(directory.glob("*.parquet")):
        return Run(beside if (beside / "run.json").exists() else None, directory)
    raise AutosyncError(f"--result names a run's directory, its result.json or a directory of records, not {given}.")


def _read(file: Path) -> dict[str, Any]:
    try:
        return parse_json(file.read_bytes(), str(file))
    except OSError as error:
        raise AutosyncError(f"{file} cannot be read: {error.strerror}.") from None
