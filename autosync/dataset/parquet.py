"""Parquet files: the one place where they are read, checked before and meanwhile, and where they are written.

Pages are written with checksums, which are verified wherever there are any. Text is read as dictionaries: whoever wants
it in each row says so (`plain`), and whoever wants Python values shares them among rows (`values_of`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from autosync.dataset.pages import Footer, PageError, held_by, read_footer
from autosync.dataset.remote import remote_at, said
from autosync.errors import DatasetError
from autosync.files import opened_to_read
from autosync.spec import cut
from autosync.spec.address import Address, Place

MOST_ROWS = 2**20
"""The most rows of a file. One of `FULL_BYTES`, over which files are not merged, holds a twentieth of that."""

MOST_BYTES = 2**29
"""The most bytes that a file's columns take decompressed, with each text as often as the file has it."""

MOST_PLAIN_BYTES = 2**31
"""The most bytes of text, when it is in every row."""

ROWS_A_GROUP = 2**13
"""Rows written at once: so many rows' text is in memory."""

VALUE_BYTES = 8

Check = Callable[[pa.Schema], object]


def read_table(path: Place, check: Check, columns: Sequence[str] | None = None) -> pa.Table:
    """The rows of `path`, or some columns of them, once `check` has let its schema pass; text as dictionaries.

    Raises `DatasetError` when the file is damaged, or holds more than the limits of this module, and
    `FileNotFoundError` when it is gone.
    """
    with _opened(path) as file:
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
    """What the schema of `path` says of itself. Raises as `read_table` does."""
    with _opened(path) as file:
        read_footer(file)
        return dict(pq.read_schema(file).metadata or {})


def write_table(table: pa.Table, file: BinaryIO) -> None:
    """Write `table`, with text in it plain or as dictionaries, to `file`, with text as columns of plain text."""
    schema = pa.schema([_plain_field(field) for field in table.schema], table.schema.metadata)
    with pq.ParquetWriter(file, schema, compression="zstd", write_page_checksum=True) as writer:
        for begin in range(0, len(table), ROWS_A_GROUP):
            writer.write_table(plain(table.slice(begin, ROWS_A_GROUP), "a table to be written"))


def parquet_bytes(table: pa.Table) -> bytes:
    """What `write_table` writes of `table`."""
    file = BytesIO()
    write_table(table, file)
    return file.getvalue()


def plain(table: pa.Table, where: str) -> pa.Table:
    """`table` with its text in every row. Raises `DatasetError`, naming `where`, when that is too much."""
    if sum(map(_text_bytes, table.columns)) > MOST_PLAIN_BYTES:
        raise DatasetError(
            f"{where} has over {MOST_PLAIN_BYTES >> 20} MiB of text in its rows; read fewer columns or rows."
        )
    return table.cast(pa.schema([_plain_field(field) for field in table.schema], table.schema.metadata))


def with_own_texts(table: pa.Table) -> pa.Table:
    """`table` with dictionaries of what its rows have alone, where those it came with are of a whole file."""
    columns = [
        pa.chunked_array([_with_own(chunk) for chunk in column.chunks], column.type)
        if pa.types.is_dictionary(column.type)
        else column
        for column in table.columns
    ]
    return pa.table(columns, schema=table.schema)


def _with_own(chunk: pa.DictionaryArray) -> pa.DictionaryArray:
    used = chunk.indices.dictionary_encode()  # no text is repeated, as `plain` would
    return pa.DictionaryArray.from_arrays(used.indices, chunk.dictionary.take(used.dictionary))


def equal(column: pa.ChunkedArray, value: str) -> pa.ChunkedArray:
    """Whether each row of a column of dictionaries is `value`."""
    found = [pc.take(pc.equal(chunk.dictionary, value), chunk.indices) for chunk in column.chunks]
    return pa.chunked_array(found, pa.bool_())


def values_of(column: pa.ChunkedArray) -> list[Any]:
    """The Python values of a column; of one of dictionaries, rows alike share theirs."""
    found: list[Any] = []
    for chunk in column.chunks:
        if pa.types.is_dictionary(chunk.type):
            known = chunk.dictionary.to_pylist()
            found += [None if index is None else known[index] for index in chunk.indices.to_pylist()]
        else:
            found += chunk.to_pylist()
    return found


def rows_of(table: pa.Table) -> Iterator[dict[str, Any]]:
    """The rows of `table` as Python values, by their columns' names."""
    names = table.column_names
    for row in zip(*map(values_of, table.columns), strict=True):
        yield dict(zip(names, row, strict=True))


@contextmanager
def _opened(path: Place) -> Iterator[BinaryIO]:
    """The file; what fails within is said as `read_table` says it."""
    try:
        with BytesIO(_fetched(path)) if isinstance(path, Address) else opened_to_read(path) as file:
            yield file
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, UnicodeError, PageError) as error:
        said = cut(str(error)).rstrip(".")
        raise DatasetError(
            f"{path} cannot be read as Parquet ({said}): it is damaged, half-written or foreign; move it elsewhere."
        ) from None


def _fetched(path: Address) -> bytes:
    """The file's content: it is asked for once, as each question to a store takes long."""
    try:
        return remote_at(path, path.parent).fetched(MOST_BYTES)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise DatasetError(f"{path} cannot be read: {said(error, 'move it elsewhere')}") from None


def _check_size(path: Place, file: BinaryIO, footer: Footer, columns: Sequence[str] | None) -> None:
    """Raise `DatasetError` when rows or pages are too many or too large, before any is decompressed."""
    if footer.rows > MOST_ROWS:
        raise DatasetError(
            f"{path} says that it has {footer.rows} rows, but at most {MOST_ROWS} of a file are read; "
            f"move it elsewhere."
        )
    size = 0
    for chunk in footer.chunks:
        if columns is None or chunk.path[0] in columns:
            held = held_by(file, chunk)
            size += held.page_bytes + VALUE_BYTES * held.values
            if size > MOST_BYTES:
                raise DatasetError(
                    f"{path} holds more than {MOST_BYTES >> 20} MiB once it is decompressed, which is the most that is "
                    f"read of a file; move it elsewhere."
                )


def _plain_field(field: pa.Field) -> pa.Field:
    return field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field


def _text_bytes(column: pa.ChunkedArray) -> int:
    """Bytes of a column of dictionaries, were its text in every row."""
    if not pa.types.is_dictionary(column.type):
        return 0
    sizes = [pc.sum(pc.take(pc.binary_length(each.dictionary), each.indices)).as_py() for each in column.chunks]
    return sum(size or 0 for size in sizes)
