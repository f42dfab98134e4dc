"""The folder of the proof: all records of trials, the finished methods, the finals and training, all as Parquet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

from autosync.dataset import RecordStore, ResultStore
from autosync.engine.core.versions import VERSIONS
from autosync.spec import RuntimeRecord
from studies.proof.cells import FRAMEWORK, ProofJob
from studies.proof.columns import FINALS, METHOD_RUNS, TRAINING, method_key, row_of_method
from studies.proof.methods import MethodRun

Row = Mapping[str, Any]


@final
@dataclass(frozen=True)
class ProofResults:
    """The results in a folder. Each is on disk as soon as it is known, so a command can be stopped at any moment."""

    records: RecordStore
    methods: ResultStore
    finals: ResultStore
    training: ResultStore

    @classmethod
    def create(cls, out: Path) -> ProofResults:
        """Return the results in `out`, created if needed. Raises `DatasetError` and `WriteError`."""
        return cls(
            RecordStore.create(out / "records"),
            ResultStore.create(out / "methods", METHOD_RUNS),
            ResultStore.create(out / "finals", FINALS),
            ResultStore.create(out / "training", TRAINING),
        )

    @classmethod
    def read_only(cls, out: Path) -> ProofResults:
        """Return the results in `out` to read; the folder may be missing."""
        return cls(
            RecordStore(out / "records"),
            ResultStore(out / "methods", METHOD_RUNS),
            ResultStore(out / "finals", FINALS),
            ResultStore(out / "training", TRAINING),
        )

    def is_done(self, job: ProofJob) -> bool:
        """Whether the job has finals that the present engine timed."""
        engines = [
            row["engine"] for row in self.finals.read() if (row["cell"], row["seed"]) == (str(job.cell), job.seed)
        ]
        return str(VERSIONS[FRAMEWORK]) in engines

    def write_method(self, job: ProofJob, run: MethodRun) -> None:
        self.methods.write(method_key(job, run.method), [row_of_method(job, run)])

    def write_finals(self, job: ProofJob, rows: Sequence[Row]) -> None:
        self.finals.write(job.key, rows)

    def read_methods(self, job: ProofJob, records: Iterable[RuntimeRecord]) -> dict[str, MethodRun]:
        """Return the finished methods of the job, with their trials among `records`.

        Methods that an earlier version of the engine finished count, too: the finals time their best strategies.
        """
        by_digest = {record.strategy.digest: record for record in records if record.purpose != "remeasure"}
        rows = [row for row in self.methods.read() if row["cell"] == str(job.cell) and row["seed"] == job.seed]
        return {
            row["method"]: _method_run(row, by_digest)
            for row in rows
            if by_digest.keys() >= set(row["strategies"])  # otherwise records were removed, and the method runs again
        }

    def merge(self) -> None:
        """Merge the files of each kind into one. No other process may write meanwhile."""
        self.records.compact()
        self.methods.merge()
        self.finals.merge()


def _method_run(row: Row, by_digest: Mapping[str, RuntimeRecord]) -> MethodRun:
    columns = (row["strategies"], row["labels"], row["purposes"], row["predicted_seconds"])
    records = [
        replace(by_digest[name], label=label, purpose=purpose, predicted_seconds=predicted)
        for name, label, purpose, predicted in zip(*columns, strict=True)
    ]
    return MethodRun(row["method"], tuple(records), row["thinking_seconds"])
