"""Records of training to a target, stored next to the records of step times: a Parquet file for each run of a race."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import final

from autosync.dataset.results import ResultColumn, ResultStore
from autosync.dataset.schema import ID_LENGTH
from autosync.errors import DatasetError, SpecError
from autosync.spec import TargetRecord, canonical_json, parse_json

FOLDER = "_targets"
"""The folder inside the records' folder. Readers of Parquet folders skip names with this prefix."""

COLUMNS = (
    ResultColumn("model_name", "text", "none", "name of the model"),
    ResultColumn("model_digest", "text", "none", "identity of the model"),
    ResultColumn("cluster_digest", "text", "none", "identity of the cluster, rates rounded to half powers of two"),
    ResultColumn("strategy_digest", "text", "none", "identity of the strategy, its discipline included"),
    ResultColumn("framework", "text", "none", "engine that trained; null for TensorFlow"),
    ResultColumn("outcome", "text", "none", "reached, not_reached, failed, timed_out or lost"),
    ResultColumn("label", "text", "none", "name of the discipline"),
    ResultColumn("run", "text", "none", "the race that the run belongs to"),
    ResultColumn("seed", "integer", "none", "seed of batches and of paced passes"),
    ResultColumn("started_at", "number", "s", "start of the run, seconds since 1970 (UTC)"),
    ResultColumn("seconds", "number", "s", "training time, to the target where it was reached"),
    ResultColumn("record_json", "text", "none", "the whole record, canonical JSON"),
)


@final
@dataclass(frozen=True)
class TargetStore:
    """The target records in `data`, a folder of records."""

    results: ResultStore

    @classmethod
    def create(cls, data: Path) -> TargetStore:
        """Return the store in `data`, created if needed. Raises `DatasetError` if it cannot be written."""
        return cls(ResultStore.create(data / FOLDER, COLUMNS))

    def append(self, record: TargetRecord) -> None:
        """Write `record`; it is on disk when this method returns. An existing record stays one row."""
        document = canonical_json(record.to_json())
        row = {
            "model_name": record.model.name,
            "model_digest": record.model.digest,
            "cluster_digest": record.cluster.digest,
            "strategy_digest": record.strategy.digest,
            "framework": record.framework,
            "outcome": record.outcome,
            "label": record.label,
            "run": record.run,
            "seed": record.seed,
            "started_at": record.started_at,
            "seconds": record.seconds,
            "record_json": document,
        }
        self.results.write(hashlib.sha256(document.encode()).hexdigest()[:ID_LENGTH], [row])

    def read(self) -> list[TargetRecord]:
        """Return the records in the order of their start. Raises `DatasetError` for an invalid row."""
        rows = self.results.read()
        try:
            records = [TargetRecord.from_json(parse_json(row["record_json"], "record_json")) for row in rows]
        except SpecError as error:
            raise DatasetError(f"A row in {self.results.directory} is not a valid target record: {error}") from None
        return sorted(records, key=lambda record: record.started_at)
