"""The versioned schema of a record's row: every column with its type, unit and meaning.

To add a column, append a `Column` whose `since` is one above the highest, which raises the version, and whose `fill` is
the value for rows of older files. Columns are never renamed, retyped or removed, so files of every version stay
readable.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, TypeVar, final

import pyarrow as pa

from autosync.errors import DatasetError, SpecError
from autosync.spec import (
    ClusterSpec,
    KeptPace,
    ModelSpec,
    RuntimeRecord,
    Strategy,
    TimingProtocol,
    canonical_json,
    cut,
    parse_json,
    quote,
)

VERSION_KEY = b"autosync.records.version"

TEXT = pa.dictionary(pa.int32(), pa.string())

LONGEST_VERSION = 9
"""The most digits of a version."""


@final
@dataclass(frozen=True)
class Column:
    """One column of the schema."""

    name: str
    type: pa.DataType
    unit: str
    meaning: str
    since: int = 1
    """The first version with this column."""
    fill: Any = None
    """The value for rows of files older than `since`."""
    nullable: bool = False
    """Whether nulls are allowed."""

    @property
    def field(self) -> pa.Field:
        return pa.field(self.name, self.type, metadata={"unit": self.unit, "meaning": self.meaning})


@final
@dataclass(frozen=True)
class Schema:
    """The columns of one version of the files."""

    version: int
    columns: tuple[Column, ...]

    @cached_property
    def arrow(self) -> pa.Schema:
        """The Arrow schema, with the version in its metadata, and units and meanings in the metadata of the fields."""
        return pa.schema([column.field for column in self.columns], {VERSION_KEY: str(self.version).encode()})

    def upgrade(self, table: pa.Table, where: str, columns: Sequence[str] | None = None) -> pa.Table:
        """Convert `table`, of this or an older version, to this version; or some of its columns. Text stays a
        dictionary.

        `where` names the table's file in errors. Raises `DatasetError` for a newer version, and for a table that does
        not hold records.
        """
        version = self.version_of(table.schema, where)
        known = {column.name: column for column in self.columns}
        wanted = self.columns if columns is None else [known[name] for name in columns]
        arrays = [self._array(column, table, version, where) for column in wanted]
        fields = [column.field.with_type(array.type) for column, array in zip(wanted, arrays, strict=True)]
        return pa.table(arrays, schema=pa.schema(fields, self.arrow.metadata))

    def _array(self, column: Column, table: pa.Table, version: int, where: str) -> pa.ChunkedArray:
        kind = TEXT if pa.types.is_string(column.type) else column.type
        places = table.schema.get_all_field_indices(column.name)
        if not places and version < column.since:
            return pa.chunked_array([pa.array([column.fill] * table.num_rows, kind)])
        if len(places) != 1:
            has = "lacks" if not places else "has more than once"
            raise DatasetError(f"{where} {has} the column {column.name!r} of records; move it elsewhere.")
        if table.column(places[0]).null_count and not column.nullable:
            raise DatasetError(f"{where} has rows whose {column.name} is null; move it elsewhere.")
        try:
            return table.column(places[0]).cast(kind)
        except pa.ArrowException as error:
            problem = cut(str(error)).rstrip(".")
            raise DatasetError(
                f"{where} has columns of types that records do not have ({problem}); move it elsewhere."
            ) from None

    def version_of(self, schema: pa.Schema, where: str) -> int:
        """Return the version that a file states. Raises `DatasetError` if the version is missing or newer than this
        one.
        """
        stated = (schema.metadata or {}).get(VERSION_KEY)
        if stated is None or not stated.isdigit() or len(stated) > LONGEST_VERSION:
            raise DatasetError(f"{where} is Parquet, but not of autosync's records; move it elsewhere.")
        if int(stated) > self.version:
            raise DatasetError(
                f"{where} has version {int(stated)} of the records, but this autosync reads up to {self.version}; "
                f"upgrade autosync to read it."
            )
        return int(stated)


COLUMNS = (
    Column("record_id", pa.string(), "none", "identity: digest of all that the record says; equal rows are one fact"),
    Column("model_name", pa.string(), "none", "name of the model"),
    Column("model_digest", pa.string(), "none", "identity of the model: variables, operators, batch size, optimizer"),
    Column("cluster_digest", pa.string(), "none", "identity of the cluster, rates rounded to half powers of two"),
    Column("strategy_digest", pa.string(), "none", "identity of the strategy"),
    Column("replicas", pa.int64(), "devices", "how many replicas trained"),
    Column(
        "outcome",
        pa.string(),
        "none",
        "ok, stopped (clearly slower than the best), failed, timed_out or lost (a process or node went away)",
    ),
    Column("reason", pa.string(), "none", "why the outcome is not ok; empty when it is"),
    Column("purpose", pa.string(), "none", "baseline, search, remeasure or manual"),
    Column("label", pa.string(), "none", "where the strategy comes from, in a word"),
    Column("run", pa.string(), "none", "the search that the trial belongs to"),
    Column("seed", pa.int64(), "none", "seed of the trial"),
    Column("started_at", pa.float64(), "s", "start of the trial, seconds since 1970 (UTC)"),
    Column("setup_seconds", pa.float64(), "s", "time to build the step"),
    Column("total_seconds", pa.float64(), "s", "time of the whole trial"),
    Column("warmup_steps", pa.int64(), "steps", "steps thrown away before the timed ones"),
    Column("step_seconds", pa.list_(pa.float64()), "s", "time of each timed step, in order"),
    Column(
        "median_seconds", pa.float64(), "s", "median of step_seconds; null when nothing usable was timed", nullable=True
    ),
    Column(
        "mean_seconds", pa.float64(), "s", "mean of step_seconds; null when nothing usable was timed", nullable=True
    ),
    Column(
        "predicted_seconds",
        pa.float64(),
        "s",
        "step time the simulator predicted; null without a prediction",
        nullable=True,
    ),
    Column("final_loss", pa.float64(), "none", "loss after the last step; null when not known", nullable=True),
    Column("host", pa.string(), "none", "machine that ran the client"),
    Column("versions", pa.string(), "none", "JSON object: version of each library"),
    Column("model_json", pa.string(), "none", "the whole model, canonical JSON"),
    Column("cluster_json", pa.string(), "none", "the whole cluster, canonical JSON"),
    Column("strategy_json", pa.string(), "none", "the whole strategy, canonical JSON"),
    Column("protocol_json", pa.string(), "none", "how the strategy was timed, canonical JSON"),
    Column(
        "sequence",
        pa.int64(),
        "none",
        "number of the trial in its collection, in order of time; else null",
        since=2,
        nullable=True,
    ),
    Column(
        "load_average",
        pa.float64(),
        "processes",
        "load of the machine over the minute before; else null",
        since=2,
        nullable=True,
    ),
    Column("time", pa.string(), "none", "real, paced (passes were waited for) or virtual", since=3, fill="real"),
    Column("numbers", pa.string(), "none", "gradients: real, held or recorded (replayed)", since=3, fill="real"),
    Column(
        "pace_json",
        pa.string(),
        "none",
        "how the pace was kept, canonical JSON: passes and lateness of each replica; null when not paced",
        since=3,
        nullable=True,
    ),
    Column(
        "phases",
        pa.list_(pa.int64()),
        "none",
        "number of the phase that each timed step began in, from 0; null where links do not change",
        since=4,
        nullable=True,
    ),
    Column(
        "framework",
        pa.string(),
        "none",
        "engine that timed the steps; null for TensorFlow",
        since=5,
        nullable=True,
    ),
)

SCHEMA = Schema(version=max(column.since for column in COLUMNS), columns=COLUMNS)

PLAIN = tuple(
    column.name
    for column in COLUMNS
    if column.name in {field.name for field in fields(RuntimeRecord)} - {"step_seconds", "versions", "phases"}
)
"""Columns that equal the record's field of the same name."""

ILL_FORMED = (SpecError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Errors of parsing a document of the wrong kind, which can be any JSON."""

MOST_SAID = 300
"""The most characters of a message about a broken rule, because the message may quote the row."""

ID_LENGTH = 32

T = TypeVar("T")


def record_id(record: RuntimeRecord) -> str:
    """Return 128 bits, in hexadecimal, of the SHA-256 of the record's whole content."""
    # Not canonical_json, because the last loss of a failed trial may be NaN, and that record also needs an id.
    text = json.dumps(record.to_json(), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:ID_LENGTH]


def table_of(record: RuntimeRecord) -> pa.Table:
    """Return the record as a table of one row. Raises `DatasetError` if a value does not fit its column."""
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
        "time": record.time,
        "numbers": record.numbers,
        "phases": None if record.phases is None else list(record.phases),
        "pace_json": record.pace and canonical_json(record.pace.to_json()),
    }
    try:
        return pa.Table.from_pylist([row], schema=SCHEMA.arrow)
    except (pa.ArrowException, OverflowError) as error:
        raise DatasetError(f"A value of a record does not fit its column: {error}. Seeds have 64 bits.") from None


def _versions(document: Mapping[str, Any]) -> dict[str, str]:
    if not all(isinstance(version, str) for version in document.values()):
        raise SpecError("Versions of libraries must be text.")
    return dict(document)


@final
class RecordReader:
    """Turns rows into records. Each distinct document is parsed once and shared by all records that contain it."""

    def __init__(self) -> None:
        self._parsed: dict[tuple[str, str], Any] = {}

    def record(self, row: Mapping[str, Any], where: str) -> RuntimeRecord:
        """Return the record in `row`. Raises `DatasetError`, naming its file `where`, if the row breaks a rule of
        records.
        """
        try:
            model = self._parse_once(ModelSpec.from_json, "model_json", row)
            strategy = self._parse_once(Strategy.from_json, "strategy_json", row)
            if strategy.by_name.keys() != model.by_name.keys():
                raise SpecError("Its strategy must decide exactly the variables of its model.")
            return RuntimeRecord(
                model=model,
                cluster=self._parse_once(ClusterSpec.from_json, "cluster_json", row),
                protocol=self._parse_once(TimingProtocol.from_json, "protocol_json", row),
                strategy=strategy,
                step_seconds=tuple(row["step_seconds"]),
                versions=self._parse_once(_versions, "versions", row),
                phases=None if row["phases"] is None else tuple(row["phases"]),
                pace=row["pace_json"] and KeptPace.from_json(parse_json(row["pace_json"], "pace_json")),
                **{name: row[name] for name in PLAIN},
            )
        except ILL_FORMED as error:
            problem = str(error) if isinstance(error, SpecError) else f"A value has the wrong type ({cut(str(error))})."
            problem = problem if len(problem) <= MOST_SAID else f"{problem[:MOST_SAID]} ..."
            raise DatasetError(
                f"Row {quote(row['record_id'])} of {where} is not a valid record: {problem} Move the file elsewhere."
            ) from None

    def _parse_once(self, parse: Callable[[Mapping[str, Any]], T], column: str, row: Mapping[str, Any]) -> T:
        key = (column, row[column])
        if key not in self._parsed:
            self._parsed[key] = parse(parse_json(row[column], column))
        value: T = self._parsed[key]
        return value
