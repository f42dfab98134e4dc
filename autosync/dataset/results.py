"""Results of experiments on disk: a Parquet file per job, so that no job runs twice, or one merged file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import pyarrow as pa

from autosync.dataset.files import check_writable, list_files, remove_file, write_file
from autosync.dataset.parquet import metadata_of, read_table, rows_of
from autosync.errors import DatasetError, SpecError
from autosync.files import inner_folder
from autosync.spec import parse_json, shorten_list

MERGED = "merged"
"""The name of the file with the rows of many keys. Its metadata `COUNTS` holds the number of rows of each key."""

COUNTS = b"autosync.rows"

TYPES = {
    "text": pa.string(),
    "flag": pa.bool_(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "texts": pa.list_(pa.string()),
    "flags": pa.list_(pa.bool_()),
    "numbers": pa.list_(pa.float64()),
}


@final
@dataclass(frozen=True)
class ResultColumn:
    """One column of results."""

    name: str
    kind: str
    """One of text, flag, integer, number, or, for lists, texts, flags, numbers."""
    unit: str
    meaning: str
    later: bool = False
    """Whether older files lack the column; they are read as if it were null."""


@final
@dataclass(frozen=True)
class ResultStore:
    """Rows with `columns` in the files of `directory`, each named by the key of the job that produced the rows.

    Every method raises `DatasetError`, naming the file, if a file cannot be written or has other columns.
    """

    directory: Path
    columns: tuple[ResultColumn, ...]

    @classmethod
    def create(cls, directory: Path, columns: tuple[ResultColumn, ...]) -> ResultStore:
        """Return the store in `directory`, created if needed and checked before any job runs. A link is a
        `WriteError`.
        """
        check_writable(inner_folder(directory.parent, directory.name))
        return cls(directory, columns)

    def __contains__(self, key: str) -> bool:
        return self._path(key).exists() or key in self._counts()

    def write(self, key: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write all rows of one job, replacing those of the same key; they are on disk when this method returns."""
        table = pa.Table.from_pylist([dict(row) for row in rows], schema=self._schema)
        write_file(self.directory, self._path(key).name, table)

    def read(self) -> list[dict[str, Any]]:
        """Return all rows, key by key in order; an empty list without the directory."""
        return [row for table in self._tables().values() for row in rows_of(table)]

    def merge(self) -> int:
        """Merge everything into one file, which is easier to move; return the number of jobs in the file.

        No other process may write meanwhile.
        """
        tables = self._tables()
        if not tables:
            return 0
        counts = json.dumps({key: len(table) for key, table in tables.items()})
        whole = pa.concat_tables(tables.values()).replace_schema_metadata({COUNTS: counts})
        write_file(self.directory, self._path(MERGED).name, whole)
        for key in tables:
            if self._path(key).exists():
                remove_file(self._path(key))
        return len(tables)

    def _tables(self) -> dict[str, pa.Table]:
        """Return the tables by key, in order. A file of one key is at least as new as that key's rows in the merged
        file.
        """
        tables: dict[str, pa.Table] = {}
        if not self.directory.is_dir():
            return tables
        counts = self._counts()
        if counts:
            whole, begin = self._table(self._path(MERGED)), 0
            for key, count in counts.items():
                tables[key] = whole.slice(begin, count)
                begin += count
        stems = [Path(path.name).stem for path in list_files(self.directory)]
        tables |= {stem: self._table(self._path(stem)) for stem in stems if stem != MERGED}
        return {key: tables[key] for key in sorted(tables)}

    def _counts(self) -> dict[str, int]:
        """Return the number of rows of each key in the merged file, in the file's order."""
        path = self._path(MERGED)
        if not path.exists():
            return {}
        try:
            counts = parse_json(metadata_of(path)[COUNTS], "The rows")
            if not all(isinstance(count, int) and count >= 0 for count in counts.values()):
                raise ValueError
            if not all(_names_a_file(key) for key in counts):  # because `merge` removes the file of each key
                raise ValueError
            return counts
        except (KeyError, SpecError, ValueError):
            raise DatasetError(f"{path} must state the number of rows of each key; remove it.") from None

    def _path(self, key: str) -> Path:
        return self.directory / f"{key}.parquet"

    def _table(self, path: Path) -> pa.Table:
        table = read_table(path, lambda schema: self._check(schema, path))
        for column in self.columns:
            if column.name not in table.column_names:
                table = table.append_column(self._schema.field(column.name), pa.nulls(len(table), TYPES[column.kind]))
        return table

    def _check(self, schema: pa.Schema, path: Path) -> None:
        known = [column.name for column in self.columns if not column.later or column.name in schema.names]
        if schema.names != known:
            raise DatasetError(
                f"{path} must have the columns of these results, but has {shorten_list(schema.names)}; remove it."
            )
        for field in schema:
            wanted = self._schema.field(field.name)
            if field.type != wanted.type:
                raise DatasetError(f"In {path} {field.name!r} is {field.type}, not {wanted.type}; remove it.")

    @property
    def _schema(self) -> pa.Schema:
        return pa.schema(
            [
                pa.field(column.name, TYPES[column.kind], metadata={"unit": column.unit, "meaning": column.meaning})
                for column in self.columns
            ]
        )


def _names_a_file(key: str) -> bool:
    """Whether the file of `key` lies in the store's own folder."""
    return key not in ("", MERGED) and "\0" not in key and Path(key).name == key
