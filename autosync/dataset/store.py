"""A directory of records, here or at an address: append one, read all, merge many small files into one.

Crash safety rests on three habits. A file appears when it is whole (`files.py`, `remote.py`). Its name comes from what
it holds (`record-ID`, or `records-` and the digest of all its ids), so that writing the same rows twice gives one file.
Readers drop rows whose `record_id` they have met; so merged rows may exist twice for a moment, and are never missing.
Several machines may merge at once: who deletes a file has written all its rows under another name before, and two
merged files that each hold the other's rows have one name, which neither deletes.
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
"""Bytes from which files are not merged again; one decompresses to a few hundred MB."""

STALE_SECONDS = 3600.0
READ_ATTEMPTS = 20

ORDER = ("started_at", "record_id")
"""Columns by which a merged file's rows are ordered."""

T = TypeVar("T")


@final
@dataclass(frozen=True)
class RecordStore:
    """The records in `directory`. Several processes may append, read and compact at once.

    Every method raises `DatasetError`, naming the file, when the directory holds anything that is not records.
    """

    directory: Place

    @classmethod
    def create(cls, directory: Place) -> RecordStore:
        """The store in `directory`, made if missing; checked now, so that no trial is run only to be lost.

        Raises `DatasetError` when it cannot be written, or holds a file that is not of records.
        """
        check_writable(directory)
        store = cls(directory)
        store.current_files()
        return store

    def append(self, record: RuntimeRecord) -> str:
        """Write `record` and return its id; it is on disk when this returns. A record already there stays one row."""
        table = table_of(record)
        identity: str = table.column("record_id")[0].as_py()
        write_file(self.directory, f"record-{identity}.parquet", table)
        return identity

    def read(
        self, model_digest: str | None = None, cluster_digest: str | None = None, run: str | None = None
    ) -> list[RuntimeRecord]:
        """Records in order of their start; only those of a model, a cluster or a run when given."""
        wanted = {"model_digest": model_digest, "cluster_digest": cluster_digest, "run": run}
        return self._whole(lambda: self._records({name: each for name, each in wanted.items() if each is not None}))

    def read_table(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Read all rows, or some columns of them, each record once, in no promised order."""
        names = SCHEMA.arrow.names if columns is None else list(columns)
        tables = self._whole(lambda: list(_distinct(self._tables(sorted({*names, "record_id"})))))
        empty = SCHEMA.arrow.empty_table().select(names)
        return pa.concat_tables([empty, *(plain(table.select(names), str(path)) for path, table in tables)])

    def to_pandas(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """Read what `read_table` does, as a pandas DataFrame."""
        return self.read_table(columns).to_pandas()

    def current_files(self) -> list[Place]:
        """Files that hold all records between them, less those whose rows are all in bigger ones."""
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
        """Merge small files, and return how many were merged. It may be killed at any moment, and run beside others.

        Temporary files that killed processes left are deleted when older than `stale_seconds`.
        """
        remove_stale_temporaries(self.directory, stale_seconds)
        try:
            return sum(self._merge(batch) for batch in _batches(with_bytes(self.directory)))
        except FileNotFoundError:
            return 0  # another process is merging the same files; what it leaves is merged next time

    def _merge(self, paths: Sequence[Place]) -> int:
        tables = [table for _, table in _distinct((path, read_encoded(path)) for path in paths)]
        table = pa.concat_tables(tables).unify_dictionaries()
        order = plain(table.select(ORDER), str(self.directory))
        table = table.take(pc.sort_indices(order, [(name, "ascending") for name in ORDER]))
        ids = "".join(sorted(order.column("record_id").to_pylist()))
        name = f"records-{hashlib.sha256(ids.encode()).hexdigest()[:ID_LENGTH]}.parquet"
        write_file(self.directory, name, table)
        # Only now that the merged rows are on disk may the single ones go.
        for path in paths:
            if path.name != name:
                remove_file(path)
        return len(paths)

    def _records(self, wanted: Mapping[str, str]) -> list[RuntimeRecord]:
        """The records whose columns are as `wanted`, file after file, so that no two files are in memory as tables."""
        reader = RecordReader()
        found = []
        for path, table in _distinct(self._tables()):
            for column, value in wanted.items():
                table = table.filter(equal(table.column(column), value))
            found += [(row["record_id"], reader.record(row, str(path))) for row in rows_of(table)]
        found.sort(key=lambda each: (each[1].started_at, each[0]))
        return [record for _, record in found]

    def _tables(self, columns: Sequence[str] | None = None) -> Iterator[tuple[Place, pa.Table]]:
        """Yield each file with its rows. Raises `FileNotFoundError` when one has gone before it was read."""
        for path in list_files(self.directory):
            yield path, read_encoded(path, columns=columns)

    def _whole(self, read: Callable[[], T]) -> T:
        """What `read` returns; it starts over when another process has merged a file before it was read."""
        for _ in range(READ_ATTEMPTS):
            try:
                return read()
            except FileNotFoundError:
                continue
        raise DatasetError(f"Files in {self.directory} keep vanishing while they are read; stop what deletes them.")


def _distinct(tables: Iterable[tuple[Place, pa.Table]]) -> Iterator[tuple[Place, pa.Table]]:
    """The tables less the rows whose `record_id` came before."""
    met: set[str] = set()
    for path, table in tables:
        keep = []
        for identity in values_of(table.column("record_id")):
            keep.append(identity not in met)
            met.add(identity)
        yield path, table if all(keep) else table.filter(pa.array(keep, pa.bool_()))


def _batches(files: Iterable[tuple[Place, int]]) -> Iterator[list[Place]]:
    """Groups of two or more small files, each no bigger than a full file needs."""
    batch: list[Place] = []
    size = 0
    for path, own_bytes in files:
        if own_bytes >= FULL_BYTES:
            continue
        batch.append(path)
        size += own_bytes
        if size >= FULL_BYTES:
            yield batch
            batch, size = [], 0
    if len(batch) > 1:
        yield batch
