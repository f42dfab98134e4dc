"""How much a Parquet file holds: by its footer, and by the headers of its pages, which the footer may understate.

Format: parquet.thrift of apache/parquet-format.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, final

from autosync.dataset.thrift import I32, I64, LIST, STRUCT, CompactError, Struct, read_struct

MAGIC = b"PAR1"

MOST_FOOTER_BYTES = 2**24

USUAL_HEADER_BYTES, MOST_HEADER_BYTES = 2**12, 2**20
"""Bytes of a page's header, as a rule and at the most; it has the least and the greatest of the page's values."""

ROW_COUNT, GROUPS = (3, I64), (4, LIST)
"""Fields of the footer."""

CHUNKS, CHUNK = (1, LIST), (3, STRUCT)
"""Fields of a group of rows, and of its chunk of a column."""

PATH, VALUE_COUNT, CHUNK_BYTES, FIRST_PAGE, FIRST_DICTIONARY = (3, LIST), (5, I64), (7, I64), (9, I64), (11, I64)
"""Fields of what is said of a chunk."""

PAGE_BYTES, COMPRESSED_BYTES, DATA, DICTIONARY, DATA_2 = (2, I32), (3, I32), (5, STRUCT), (7, STRUCT), (8, STRUCT)
"""Fields of a page's header; of the last three it has one."""

PAGE_VALUES = (1, I32)
ENCODING = {DATA: (2, I32), DICTIONARY: (2, I32), DATA_2: (4, I32)}

PLAIN, PLAIN_DICTIONARY, RLE, RLE_DICTIONARY = 0, 2, 3, 8
ENCODINGS = (PLAIN, PLAIN_DICTIONARY, RLE, RLE_DICTIONARY)
"""Encodings whose text takes no more bytes once a page is decompressed; others repeat parts of earlier values."""


class PageError(ValueError):
    """The file's footer, or a page, cannot be read."""


@final
@dataclass(frozen=True)
class Chunk:
    """The pages of one column, the part of it called by `path`, for a group of rows: bytes from `begin` to `end`."""

    path: tuple[str, ...]
    begin: int
    end: int


@final
@dataclass(frozen=True)
class Footer:
    rows: int
    chunks: tuple[Chunk, ...]


@final
@dataclass(frozen=True)
class Held:
    """`page_bytes` of decompressed pages, and `values` in them: a few bytes may stand for all values of a page."""

    page_bytes: int
    values: int


def read_footer(file: BinaryIO) -> Footer:
    """What `file` says of itself at its end. Raises `PageError`."""
    file_bytes = file.seek(0, 2)
    file.seek(max(file_bytes - 8, 0))
    length, magic = int.from_bytes(file.read(4), "little"), file.read()
    if magic != MAGIC or length > file_bytes - 8:
        raise PageError("it does not end as such a file does")
    if length > MOST_FOOTER_BYTES:
        raise PageError(f"it describes itself in {length} bytes, and at most {MOST_FOOTER_BYTES} are read")
    file.seek(file_bytes - 8 - length)
    try:
        footer, _ = read_struct(file.read(length))
        return Footer(footer[ROW_COUNT], tuple(_chunks(footer)))
    except (LookupError, TypeError, CompactError, UnicodeError):
        raise PageError("its footer is none") from None


def held_by(file: BinaryIO, chunk: Chunk) -> Held:
    """What the pages of `chunk` hold. Raises `PageError`."""
    at, page_bytes, values = chunk.begin, 0, 0
    while at < chunk.end:
        header, header_bytes = _header(file, at)
        kind = next((each for each in (DATA, DICTIONARY, DATA_2) if each in header), None)
        try:
            sizes = (header[PAGE_BYTES], header[COMPRESSED_BYTES], header[kind][PAGE_VALUES])  # type: ignore[index]
            encoding = header[kind][ENCODING[kind]]  # type: ignore[index]
        except KeyError:
            raise PageError("a page is neither of data nor a dictionary") from None
        if min(sizes) < 0:
            raise PageError("a page's size is negative")
        if encoding not in ENCODINGS:
            raise PageError("a page is encoded in a way that autosync does not write")
        page_bytes += sizes[0]
        values += sizes[2]
        at += header_bytes + sizes[1]
    return Held(page_bytes, values)


def _chunks(footer: Struct) -> Iterator[Chunk]:
    """The chunks that have values."""
    for group in footer[GROUPS]:
        for column in group[CHUNKS]:
            said = column[CHUNK]
            begin, dictionary = said[FIRST_PAGE], said.get(FIRST_DICTIONARY, 0)
            begin = dictionary if 0 < dictionary < begin else begin
            if min(begin, said[CHUNK_BYTES], said[VALUE_COUNT]) < 0:
                raise CompactError
            if said[VALUE_COUNT]:
                yield Chunk(tuple(name.decode() for name in said[PATH]), begin, begin + said[CHUNK_BYTES])


def _header(file: BinaryIO, at: int) -> tuple[Struct, int]:
    """The page's header at byte `at`, and how long it is."""
    for most_bytes in (USUAL_HEADER_BYTES, MOST_HEADER_BYTES):
        file.seek(at)
        try:
            return read_struct(file.read(most_bytes))
        except IndexError:
            continue
        except CompactError:
            break
    raise PageError("a page's header is none")
