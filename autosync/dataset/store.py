"""A directory of records, local or at an address: append one, read all, merge many small files into one.

Crash safety rests on three rules. A file appears only when it is complete (`files.py`, `remote.py`). Its name depends
on its content (`record-ID`, or `records-` and the digest of all its ids), so writing the same rows twice yields one
file. Readers drop rows whose `record_id` they have seen, so merged rows may exist twice for a moment but are never
missing. Several machines may merge at once: a machine deletes a file only after writing all its rows under another
name, and two merged files that contain each other's rows have the same name, which neither machine deletes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar, final

import pyarrow as pa
import pyarrow.compute as pc

from autosync.dataset.files import (
    check_writable,
    list_files,
    read_encoded,
    remove_file,
    remove_stale_temporaries,
    with_bytes,
    write_file,
)
from autosync.dataset.parquet import equal, plain, rows_of, values_of
from autosync.dataset.schema import ID_LENGTH, SCHEMA, RecordReader, table_of
from autosync.errors import DatasetError
from autosync.spec import RuntimeRecord
from autosync.spec.address import Place

if TYPE_CHECKING:
    import pandas as pd

FULL_BYTES = 16 * 2**20
"""Files of at least this size are not merged again; one decompresses to a few hundred MB."""

STALE_SECONDS = 3600.0
READ_ATTEMPTS = 20

ORDER = ("started_at", "record_id")
"""Columns that determine the order of a merged file's rows."""

T = TypeVar("T")


@final
@dataclass(frozen=True)
class RecordStore:
    """The records in `directory`. Several processes may append, read and compact at once.

    Every method raises `DatasetError`, naming the file, if the directory contains other files.
    """

    directory: Place

    @classmethod
    def create(cls, directory: Place) -> RecordStore:
        """Return the store in `directory`, created if needed, and checked now so that no trial runs in vain.

        Raises `DatasetError` if the directory cannot be written, or contains a file without records.
        """
        check_writable(directory)
        store = cls(directory)
        store.current_files()
        return store

    def append(self, record: RuntimeRecord) -> str:
        """Write `record` and return its id; it is on disk when this method returns. An existing record stays
        one row.
        """
        table = table_of(record)
        identity: str = table.column("record_id")[0].as_py()
        write_file(self.directory, f"record-{identity}.parquet", table)
        return identity

    def read(
        self, model_digest: str | None = None, cluster_digest: str | None = None, run: str | None = None
    ) -> list[RuntimeRecord]:
        """Return records in order of their start, restricted to a model, a cluster or a run if passed."""
        wanted = {"model_digest": model_digest, "cluster_digest": cluster_digest, "run": run}
        return self._whole(lambda: self._records({name: value for name, value in wanted.items() if value is not None}))

    def read_table(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Return all rows, or some of their columns, each record once, in no particular order."""
        names = SCHEMA.arrow.names if columns is None else list(columns)
        tables = self._whole(lambda: list(_distinct(self._tables(sorted({*names, "record_id"})))))
        empty = SCHEMA.arrow.empty_table().select(names)
        return pa.concat_tables([empty, *(plain(table.select(names), str(path)) for path, table in tables)])

    def to_pandas(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """Return the table of `read_table` as a pandas DataFrame."""
        return self.read_table(columns).to_pandas()

    def current_files(self) -> list[Place]:
        """Return files that together contain all records, without files whose rows are all in bigger files."""
        tables = self._whole(lambda: list(self._tables(["record_id"])))
        ids = {path: set(values_of(table.column(0))) for path, table in tables}
        covered: set[str] = set()
        current = []
        for path in sorted(ids, key=lambda path: (-len(ids[path]), str(path))):
            if not ids[path] <= covered:
                current.append(path)
                covered |= ids[path]
        return sorted(current, key=str)

    def compact(self, stale_seconds: float = STALE_SECONDS) -> int:
        """Merge small files, and return how many were merged. Safe to kill at any moment, and to run alongside other
        processes.

        Temporary files of killed processes are deleted if they are older than `stale_seconds`.
        """
        remove_stale_temporaries(self.directory, stale_seconds)
        try:
            return sum(self._merge(batch) for batch in _batches(with_bytes(self.directory)))
        except FileNotFoundError:
            return 0  # another process is merging the same files; the next call merges the rest

    def _merge(self, paths: Sequence[Place]) -> int:
        tables = [table for _, table in _distinct((path, read_encoded(path)) for path in paths)]
        table = pa.concat_tables(tables).unify_dictionaries()
        order = plain(table.select(ORDER), str(self.directory))
        table = table.take(pc.sort_indices(order, [(name, "ascending") for name in ORDER]))
        ids = "".join(sorted(order.column("record_id").to_pylist()))
        name = f"records-{hashlib.sha256(ids.encode()).hexdigest()[:ID_LENGTH]}.parquet"
        write_file(self.directory, name, table)
        # Delete the single files only now, because the merged rows are on disk.
        for path in paths:
            if path.name != name:
                remove_file(path)
        return len(paths)

    def _records(self, wanted: Mapping[str, str]) -> list[RuntimeRecord]:
        """Return the records whose columns equal `wanted`, file by file, so that only one file is in memory as
        a table.
        """
        reader = RecordReader()
        identified = []
        for path, table in _distinct(self._tables()):
            for column, value in wanted.items():
                table = table.filter(equal(table.column(column), value))
            identified += [(row["record_id"], reader.record(row, str(path))) for row in rows_of(table)]
        identified.sort(key=lambda entry: (entry[1].started_at, entry[0]))
        return [record for _, record in identified]

    def _tables(self, columns: Sequence[str] | None = None) -> Iterator[tuple[Place, pa.Table]]:
        """Yield each file with its rows. Raises `FileNotFoundError` if a file is deleted before it is read."""
        for path in list_files(self.directory):
            yield path, read_encoded(path, columns=columns)

    def _whole(self, read: Callable[[], T]) -> T:
        """Return the result of `read`, starting over if another process has merged a file before it was read."""
        for _ in range(READ_ATTEMPTS):
            try:
                return read()
            except FileNotFoundError:
                continue
        raise DatasetError(f"Files in {self.directory} keep vanishing while they are read; stop what deletes them.")


def _distinct(tables: Iterable[tuple[Place, pa.Table]]) -> Iterator[tuple[Place, pa.Table]]:
    """Yield the tables without rows whose `record_id` came before."""
    seen: set[str] = set()
    for path, table in tables:
        keep = []
        for identity in values_of(table.column("record_id")):
            keep.append(identity not in seen)
            seen.add(identity)
        yield path, table if all(keep) else table.filter(pa.array(keep, pa.bool_()))


def _batches(files: Iterable[tuple[Place, int]]) -> Iterator[list[Place]]:
    """Yield groups of two or more small files, each group just large enough for a full file."""
    batch: list[Place] = []
    size = 0
    for path, file_bytes in files:
        if file_bytes >= FULL_BYTES:
            continue
        batch.append(path)
        size += file_bytes
        if size >= FULL_BYTES:
            yield batch
            batch, size = [], 0
    if len(batch) > 1:
        yield batch
