"""A record as a row of the table, and back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, final

import pyarrow as pa

from autosync.dataset.schema import SCHEMA
from autosync.errors import DatasetError, SpecError
from autosync.spec import (
    ClusterSpec,
    ModelSpec,
    RuntimeRecord,
    Strategy,
    TimingProtocol,
    canonical_json,
    cut,
    parse_json,
    quoted,
)

__all__ = ["PLAIN", "RecordReader", "record_id", "table_of"]

PLAIN = (
    "outcome",
    "reason",
    "purpose",
    "label",
    "run",
    "seed",
    "started_at",
    "setup_seconds",
    "total_seconds",
    "predicted_seconds",
    "final_loss",
    "host",
    "sequence",
    "load_average",
)
"""Columns that are fields of the record under the same name."""

ILL_FORMED = (SpecError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Errors that reading a document raises when it is of no noun: it may be any JSON there is."""

MOST_SAID = 300
"""Characters shown of what a row breaks, which may quote the row."""

ID_LENGTH = 32

T = TypeVar("T")


def record_id(record: RuntimeRecord) -> str:
    """128 bits, in hexadecimal, of the SHA-256 of all that the record says."""
    # Not canonical_json: the last loss of a failed trial may be NaN, and its record counts all the same.
    text = json.dumps(record.to_json(), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:ID_LENGTH]


def table_of(record: RuntimeRecord) -> pa.Table:
    """The record as a table of one row. Raises `DatasetError` when a value does not fit its column."""
    row: dict[str, Any] = {name: getattr(record, name) for name in PLAIN}
    row |= {
        "record_id": record_id(record),
        "model_name": record.model.name,
        "model_digest": record.model.digest,
        "cluster_digest": record.cluster.digest,
        "strategy_digest": record.strategy.digest,
        "replicas": len(record.strategy.replicas),
        "warmup_steps": record.protocol.warmup_steps,
        "step_seconds": list(record.step_seconds),
        "median_seconds": record.median_seconds,
        "mean_seconds": record.mean_seconds,
        "versions": canonical_json(dict(record.versions)),
        "model_json": canonical_json(record.model.to_json()),
        "cluster_json": canonical_json(record.cluster.to_json()),
        "strategy_json": canonical_json(record.strategy.to_json()),
        "protocol_json": canonical_json(record.protocol.to_json()),
    }
    try:
        return pa.Table.from_pylist([row], schema=SCHEMA.arrow)
    except (pa.ArrowException, OverflowError) as error:
        raise DatasetError(f"A value of a record does not fit its column: {error}. Seeds have 64 bits.") from None


def _versions(document: Mapping[str, Any]) -> dict[str, str]:
    if not all(isinstance(version, str) for version in document.values()):
        raise SpecError("Versions of libraries are text.")
    return dict(document)


@final
class RecordReader:
    """Turns rows into records; what their documents say is parsed once and shared by all with the same."""

    def __init__(self) -> None:
        self._parsed: dict[tuple[str, str], Any] = {}

    def record(self, row: Mapping[str, Any], where: str) -> RuntimeRecord:
        """The record in `row`. Raises `DatasetError`, naming its file `where`, when that breaks a rule of records."""
        try:
            model = self._shared(ModelSpec.from_json, "model_json", row)
            strategy = self._shared(Strategy.from_json, "strategy_json", row)
            if strategy.by_name.keys() != model.by_name.keys():
                raise SpecError("Its strategy decides of other variables than its model has.")
            return RuntimeRecord(
                model=model,
                cluster=self._shared(ClusterSpec.from_json, "cluster_json", row),
                protocol=self._shared(TimingProtocol.from_json, "protocol_json", row),
                strategy=strategy,
                step_seconds=tuple(row["step_seconds"]),
                versions=self._shared(_versions, "versions", row),
                **{name: row[name] for name in PLAIN},
            )
        except ILL_FORMED as error:
            said = str(error) if isinstance(error, SpecError) else f"A value is of another kind ({cut(str(error))})."
            said = said if len(said) <= MOST_SAID else f"{said[:MOST_SAID]} ..."
            raise DatasetError(
                f"Row {quoted(row['record_id'])} of {where} is no valid record: {said} Move the file elsewhere."
            ) from None

    def _shared(self, parse: Callable[[Mapping[str, Any]], T], column: str, row: Mapping[str, Any]) -> T:
        key = (column, row[column])
        if key not in self._parsed:
            self._parsed[key] = parse(parse_json(row[column], column))
        value: T = self._parsed[key]
        return value
