"""Parquet files: the only module that reads, checks and writes them.

Pages are written with checksums, and checksums are verified when present. Text is read as dictionaries. Callers that
need text in each row use `plain`; callers that need Python values share them among rows (`values_of`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from autosync.dataset.pages import Footer, PageError, page_totals, read_footer
from autosync.dataset.remote import failure_in_words, remote_at
from autosync.errors import DatasetError
from autosync.files import open_to_read
from autosync.spec import cut
from autosync.spec.address import Address, Place

MOST_ROWS = 2**20
"""The most rows of a file. A file of `FULL_BYTES`, which is not merged again, holds a twentieth of that."""

MOST_BYTES = 2**29
"""The most bytes of a file's columns after decompression, counting each text as often as the file stores it."""

MOST_PLAIN_BYTES = 2**31
"""The most bytes of text when every row holds its text."""

ROWS_A_GROUP = 2**13
"""Rows per write; their text is in memory at once."""

VALUE_BYTES = 8

Check = Callable[[pa.Schema], object]


def read_table(path: Place, check: Check, columns: Sequence[str] | None = None) -> pa.Table:
    """Return the rows of `path`, or some of their columns, after `check` has accepted the schema; text as dictionaries.

    Raises `DatasetError` if the file is damaged or exceeds this module's limits, and `FileNotFoundError` if it is gone.
    """
    with _open(path) as file:
        footer = read_footer(file)
        _check_size(path, file, footer, columns)
        metadata = pq.read_metadata(file)
        schema = metadata.schema.to_arrow_schema()
        check(schema)
        text = [
            field.name for field in schema if pa.types.is_string(field.type) or pa.types.is_large_string(field.type)
        ]
        parquet = pq.ParquetFile(file, metadata=metadata, read_dictionary=text, page_checksum_verification=True)
        table = parquet.read(columns=None if columns is None else list(columns))
        table.validate(full=True)
        return table


def metadata_of(path: Place) -> Mapping[bytes, bytes]:
    """Return the metadata in the schema of `path`. Raises the errors of `read_table`."""
    with _open(path) as file:
        read_footer(file)
        return dict(pq.read_schema(file).metadata or {})


def write_table(table: pa.Table, file: BinaryIO) -> None:
    """Write `table` to `file`, with plain text columns; text in `table` may be plain or in dictionaries."""
    schema = pa.schema([_plain_field(field) for field in table.schema], table.schema.metadata)
    with pq.ParquetWriter(file, schema, compression="zstd", write_page_checksum=True) as writer:
        for begin in range(0, len(table), ROWS_A_GROUP):
            writer.write_table(plain(table.slice(begin, ROWS_A_GROUP), "a table to be written"))


def parquet_bytes(table: pa.Table) -> bytes:
    """Return the bytes that `write_table` writes for `table`."""
    file = BytesIO()
    write_table(table, file)
    return file.getvalue()


def plain(table: pa.Table, where: str) -> pa.Table:
    """Return `table` with its text in every row. Raises `DatasetError`, naming `where`, if that is too much."""
    if sum(map(_text_bytes, table.columns)) > MOST_PLAIN_BYTES:
        raise DatasetError(
            f"{where} has over {MOST_PLAIN_BYTES >> 20} MiB of text in its rows; read fewer columns or rows."
        )
    return table.cast(pa.schema([_plain_field(field) for field in table.schema], table.schema.metadata))


def with_own_texts(table: pa.Table) -> pa.Table:
    """Return `table` with dictionaries of only its own rows' texts, instead of a whole file's."""
    columns = [
        pa.chunked_array([_with_own(chunk) for chunk in column.chunks], column.type)
        if pa.types.is_dictionary(column.type)
        else column
        for column in table.columns
    ]
    return pa.table(columns, schema=table.schema)


def _with_own(chunk: pa.DictionaryArray) -> pa.DictionaryArray:
    used = chunk.indices.dictionary_encode()  # unlike `plain`, this repeats no text
    return pa.DictionaryArray.from_arrays(used.indices, chunk.dictionary.take(used.dictionary))


def equal(column: pa.ChunkedArray, value: str) -> pa.ChunkedArray:
    """Return whether each row of a dictionary column equals `value`."""
    rows_equal = [pc.take(pc.equal(chunk.dictionary, value), chunk.indices) for chunk in column.chunks]
    return pa.chunked_array(rows_equal, pa.bool_())


def values_of(column: pa.ChunkedArray) -> list[Any]:
    """Return the Python values of a column. Equal rows of a dictionary column share their values."""
    values: list[Any] = []
    for chunk in column.chunks:
        if pa.types.is_dictionary(chunk.type):
            known = chunk.dictionary.to_pylist()
            values += [None if index is None else known[index] for index in chunk.indices.to_pylist()]
        else:
            values += chunk.to_pylist()
    return values


def rows_of(table: pa.Table) -> Iterator[dict[str, Any]]:
    """Yield the rows of `table` as Python values, by column name."""
    names = table.column_names
    for row in zip(*map(values_of, table.columns), strict=True):
        yield dict(zip(names, row, strict=True))


@contextmanager
def _open(path: Place) -> Iterator[BinaryIO]:
    """Open the file, and convert errors within the block to those of `read_table`."""
    try:
        with BytesIO(_fetch(path)) if isinstance(path, Address) else open_to_read(path) as file:
            yield file
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, UnicodeError, PageError) as error:
        problem = cut(str(error)).rstrip(".")
        raise DatasetError(
            f"{path} cannot be read as Parquet ({problem}): it is damaged, half-written or foreign; move it elsewhere."
        ) from None


def _fetch(path: Address) -> bytes:
    """Return the file's content in a single request, because each request to a store takes long."""
    try:
        return remote_at(path, path.parent).fetch(MOST_BYTES)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise DatasetError(f"{path} cannot be read: {failure_in_words(error, 'move it elsewhere')}") from None


def _check_size(path: Place, file: BinaryIO, footer: Footer, columns: Sequence[str] | None) -> None:
    """Raise `DatasetError` if there are too many rows or too large pages, before any page is decompressed."""
    if footer.rows > MOST_ROWS:
        raise DatasetError(
            f"{path} states {footer.rows} rows, but at most {MOST_ROWS} rows of a file are read; move it elsewhere."
        )
    size = 0
    for chunk in footer.chunks:
        if columns is None or chunk.path[0] in columns:
            held = page_totals(file, chunk)
            size += held.page_bytes + VALUE_BYTES * held.values
            if size > MOST_BYTES:
                raise DatasetError(
                    f"{path} holds more than {MOST_BYTES >> 20} MiB after decompression, the most that is read from a "
                    f"file; move it elsewhere."
                )


def _plain_field(field: pa.Field) -> pa.Field:
    return field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field


def _text_bytes(column: pa.ChunkedArray) -> int:
    """Return the bytes of a dictionary column with its text in every row."""
    if not pa.types.is_dictionary(column.type):
        return 0
    sizes = [pc.sum(pc.take(pc.binary_length(chunk.dictionary), chunk.indices)).as_py() for chunk in column.chunks]
    return sum(size or 0 for size in sizes)
