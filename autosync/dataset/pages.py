"""The contents of a Parquet file, from its footer and from its pages' headers, because the footer may understate them.

Format: parquet.thrift of apache/parquet-format.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, final

from autosync.dataset.thrift import I32, I64, LIST, STRUCT, CompactError, Struct, read_struct

MAGIC = b"PAR1"

MOST_FOOTER_BYTES = 2**24

USUAL_HEADER_BYTES, MOST_HEADER_BYTES = 2**12, 2**20
"""Bytes of a page's header: the usual size, and the maximum. A header includes the page's least and greatest values."""

ROW_COUNT, GROUPS = (3, I64), (4, LIST)
"""Fields of the footer."""

CHUNKS, CHUNK = (1, LIST), (3, STRUCT)
"""Fields of a row group, and of a chunk of a column in the group."""

PATH, VALUE_COUNT, CHUNK_BYTES, FIRST_PAGE, FIRST_DICTIONARY = (3, LIST), (5, I64), (7, I64), (9, I64), (11, I64)
"""Fields of a chunk's metadata."""

PAGE_BYTES, COMPRESSED_BYTES, DATA, DICTIONARY, DATA_2 = (2, I32), (3, I32), (5, STRUCT), (7, STRUCT), (8, STRUCT)
"""Fields of a page's header. A header has one of the last three."""

PAGE_VALUES = (1, I32)
ENCODING = {DATA: (2, I32), DICTIONARY: (2, I32), DATA_2: (4, I32)}

PLAIN, PLAIN_DICTIONARY, RLE, RLE_DICTIONARY = 0, 2, 3, 8
ENCODINGS = (PLAIN, PLAIN_DICTIONARY, RLE, RLE_DICTIONARY)
"""Encodings whose text does not grow after a page is decompressed. Other encodings repeat parts of earlier values."""


class PageError(ValueError):
    """The file's footer, or a page, cannot be read."""


@final
@dataclass(frozen=True)
class Chunk:
    """The pages of one column in a row group."""

    path: tuple[str, ...]
    """The column's name, and the names of the part within the column."""
    begin: int
    """The first byte in the file."""
    end: int
    """The byte after the last one."""


@final
@dataclass(frozen=True)
class Footer:
    """A file's number of rows and its chunks."""

    rows: int
    chunks: tuple[Chunk, ...]


@final
@dataclass(frozen=True)
class PageTotals:
    """Totals over pages."""

    page_bytes: int
    """Bytes of the decompressed pages."""
    values: int
    """Values in the pages. A few bytes can encode all values of a page."""


def read_footer(file: BinaryIO) -> Footer:
    """Read the footer at the end of `file`. Raises `PageError`."""
    file_bytes = file.seek(0, 2)
    file.seek(max(file_bytes - 8, 0))
    length, magic = int.from_bytes(file.read(4), "little"), file.read()
    if magic != MAGIC or length > file_bytes - 8:
        raise PageError("its end is not that of a Parquet file")
    if length > MOST_FOOTER_BYTES:
        raise PageError(f"its footer has {length} bytes, but at most {MOST_FOOTER_BYTES} are read")
    file.seek(file_bytes - 8 - length)
    try:
        footer, _ = read_struct(file.read(length))
        return Footer(footer[ROW_COUNT], tuple(_chunks(footer)))
    except (LookupError, TypeError, CompactError, UnicodeError):
        raise PageError("its footer is malformed") from None


def page_totals(file: BinaryIO, chunk: Chunk) -> PageTotals:
    """Return the totals over the pages of `chunk`. Raises `PageError`."""
    at, page_bytes, values = chunk.begin, 0, 0
    while at < chunk.end:
        header, header_bytes = _header(file, at)
        kind = next((field for field in (DATA, DICTIONARY, DATA_2) if field in header), None)
        try:
            sizes = (header[PAGE_BYTES], header[COMPRESSED_BYTES], header[kind][PAGE_VALUES])  # type: ignore[index]
            encoding = header[kind][ENCODING[kind]]  # type: ignore[index]
        except KeyError:
            raise PageError("a page is neither a data page nor a dictionary page") from None
        if min(sizes) < 0:
            raise PageError("a page's size is negative")
        if encoding not in ENCODINGS:
            raise PageError("a page has an encoding that autosync does not write")
        page_bytes += sizes[0]
        values += sizes[2]
        at += header_bytes + sizes[1]
    return PageTotals(page_bytes, values)


def _chunks(footer: Struct) -> Iterator[Chunk]:
    """Yield the chunks with values."""
    for group in footer[GROUPS]:
        for column in group[CHUNKS]:
            chunk = column[CHUNK]
            begin, dictionary = chunk[FIRST_PAGE], chunk.get(FIRST_DICTIONARY, 0)
            begin = dictionary if 0 < dictionary < begin else begin
            if min(begin, chunk[CHUNK_BYTES], chunk[VALUE_COUNT]) < 0:
                raise CompactError
            if chunk[VALUE_COUNT]:
                yield Chunk(tuple(name.decode() for name in chunk[PATH]), begin, begin + chunk[CHUNK_BYTES])


def _header(file: BinaryIO, at: int) -> tuple[Struct, int]:
    """Return the page's header at byte `at`, and the header's length."""
    for most_bytes in (USUAL_HEADER_BYTES, MOST_HEADER_BYTES):
        file.seek(at)
        try:
            return read_struct(file.read(most_bytes))
        except IndexError:
            continue
        except CompactError:
            break
    raise PageError("a page's header is malformed")
