"""Results of experiments on disk: a Parquet file for each piece of work, so that none is done twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import pyarrow as pa
import pyarrow.parquet as pq

from autosync.dataset.files import check_writable, list_files, write_file
from autosync.errors import DatasetError

__all__ = ["ResultColumn", "ResultStore"]

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
    """One column; `kind` is one of text, flag, integer, number, or, for lists of them, texts, flags, numbers."""

    name: str
    kind: str
    unit: str
    meaning: str


@final
@dataclass(frozen=True)
class ResultStore:
    """Rows with `columns` in the files of `directory`, each named by the key of the work that it came of.

    Every method raises `DatasetError`, naming the file, when it cannot be written, or holds other columns.
    """

    directory: Path
    columns: tuple[ResultColumn, ...]

    @classmethod
    def create(cls, directory: Path, columns: tuple[ResultColumn, ...]) -> ResultStore:
        """The store in `directory`, made if missing; checked now, so that no work is done only to be lost."""
        check_writable(directory)
        return cls(directory, columns)

    def __contains__(self, key: str) -> bool:
        return self._path(key).exists()

    def write(self, key: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """All rows of one piece of work; they are on disk when this returns. Rows of that key are replaced."""
        table = pa.Table.from_pylist([dict(row) for row in rows], schema=self._schema)
        write_file(self.directory, self._path(key).name, table)

    def read(self) -> list[dict[str, Any]]:
        """All rows, file by file in order of their names; none when there is no such directory."""
        if not self.directory.is_dir():
            return []
        return [row for path in list_files(self.directory) for row in self._table(path).to_pylist()]

    def _path(self, key: str) -> Path:
        return self.directory / f"{key}.parquet"

    def _table(self, path: Path) -> pa.Table:
        try:
            table = pq.read_table(path)
        except (pa.ArrowException, OSError) as error:
            raise DatasetError(f"{path} cannot be read as Parquet ({str(error).rstrip('.')}); remove it.") from None
        if table.schema.names != self._schema.names:
            raise DatasetError(
                f"{path} has other columns than these results have: {', '.join(table.schema.names)}; remove it."
            )
        return table

    @property
    def _schema(self) -> pa.Schema:
        return pa.schema(
            [
                pa.field(each.name, TYPES[each.kind], metadata={"unit": each.unit, "meaning": each.meaning})
                for each in self.columns
            ]
        )
