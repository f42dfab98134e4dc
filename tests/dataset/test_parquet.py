"""Parquet files that are damaged, or that state or contain more than a file of records may."""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from autosync.dataset import SCHEMA, RecordStore, ResultColumn, ResultStore
from autosync.dataset import parquet as limits
from autosync.dataset.parquet import read_table, write_table
from autosync.dataset.schema import table_of
from autosync.errors import DatasetError
from tests.dataset.examples import example_record, failed_record

SHIPPED = sorted((Path(__file__).parents[2] / "runtimes").rglob("*.parquet"))

COLUMNS = (
    ResultColumn("who", "text", "none", "a name"),
    ResultColumn("seconds", "numbers", "s", "some times"),
)


def flipped(content: bytes, seed: int, times: int) -> Iterator[bytes]:
    """Yield `content` with one flipped bit, each time elsewhere: half of the flips in the footer, which has no
    checksum.
    """
    chosen = random.Random(seed)
    (footer_bytes,) = struct.unpack("<I", content[-8:-4])
    for number in range(times):
        begin = len(content) - footer_bytes - 8 if number % 2 else 0
        at, bit = chosen.randrange(begin, len(content)), chosen.randrange(8)
        yield content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :]


def assert_each_flip_is_refused_or_harmless(directory: Path, times: int) -> None:
    store = RecordStore.create(directory)
    for index in range(3):
        store.append(example_record(index))
    store.compact()
    (path,) = directory.iterdir()
    whole, records = path.read_bytes(), store.read()
    messages = []
    for damaged in flipped(whole, seed=0, times=times):
        path.write_bytes(damaged)
        try:
            assert store.read() == records
        except DatasetError as error:
            messages.append(str(error))
    assert all(path.name in message and "\n" not in message for message in messages)
    assert len(messages) > times / 5, "most bytes of the data matter"


def test_a_flipped_bit_is_refused_by_the_files_name_or_changes_nothing(tmp_path: Path):
    assert_each_flip_is_refused_or_harmless(tmp_path, 400)


@pytest.mark.thorough
def test_any_of_very_many_flipped_bits_is_refused_or_changes_nothing(tmp_path: Path):
    assert_each_flip_is_refused_or_harmless(tmp_path, 10_000)


def test_results_are_verified_too(tmp_path: Path):
    store = ResultStore.create(tmp_path, COLUMNS)
    store.write("one", [{"who": "a", "seconds": [0.5, 0.25]}, {"who": "b", "seconds": None}])
    store.merge()
    (path,) = tmp_path.iterdir()
    whole, rows = path.read_bytes(), store.read()
    messages = []
    for damaged in flipped(whole, seed=1, times=200):
        path.write_bytes(damaged)
        try:
            assert store.read() == rows
        except DatasetError as error:
            messages.append(str(error))
    assert all(path.name in message for message in messages)
    assert len(messages) > 20


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.parent.name)
def test_files_written_before_there_were_checksums_are_read(path: Path):
    assert len(read_table(path, lambda _: None)) == pq.read_metadata(path).num_rows


def test_what_is_written_reads_the_same_with_pyarrow_alone(tmp_path: Path):
    table = pa.concat_tables([table_of(example_record(0)), table_of(failed_record(1))])
    with (tmp_path / "plain.parquet").open("wb") as file:
        write_table(table, file)
    result = pq.read_table(tmp_path / "plain.parquet", page_checksum_verification=True)
    assert result.schema.equals(SCHEMA.arrow)
    assert [field.metadata for field in result.schema] == [field.metadata for field in SCHEMA.arrow]
    assert result.drop_columns("final_loss").equals(table.drop_columns("final_loss"))  # NaN is equal to nothing


def written(directory: Path, table: pa.Table) -> Path:
    """Write `table`, with the metadata of records, to a file of `directory`."""
    metadata = (table.schema.metadata or {}) | SCHEMA.arrow.metadata
    path = directory / "odd.parquet"
    pq.write_table(table.replace_schema_metadata(metadata), path, compression="zstd")
    return path


def assert_refused(directory: Path, match: str) -> None:
    for read in (RecordStore(directory).read, RecordStore(directory).read_table):
        with pytest.raises(DatasetError, match=rf"odd\.parquet {match}"):
            read()


def test_a_file_that_says_too_many_rows_is_refused_before_they_are_read(tmp_path: Path):
    rows = limits.MOST_ROWS + 1
    alike = {
        field.name: pa.DictionaryArray.from_arrays(
            pa.array(np.zeros(rows, "int8")), table_of(example_record()).column(field.name).chunk(0).fill_null("")
        )
        for field in SCHEMA.arrow
        if pa.types.is_string(field.type) and field.name != "pace_json"  # null, which no dictionary holds
    }
    path = written(tmp_path, pa.table(alike))
    assert path.stat().st_size < 2**20
    assert_refused(tmp_path, rf"states {rows} rows, but at most {limits.MOST_ROWS} rows of a file are read")


def test_a_list_of_very_many_alike_is_refused_though_the_file_is_tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(limits, "MOST_BYTES", 2**24)
    count = 2**21 + 1
    listed = pa.ListArray.from_arrays(pa.array([0, count], pa.int32()), pa.array(np.zeros(count)))
    path = written(tmp_path, pa.table({"step_seconds": listed}))
    assert path.stat().st_size < 4096
    assert_refused(tmp_path, "holds more than 16 MiB after decompression")
    _understate(path, count, 1000)
    assert pq.read_metadata(path).row_group(0).column(0).num_values == 1000
    assert_refused(tmp_path, "holds more than 16 MiB after decompression")


def _understate(path: Path, values: int, stated: int) -> None:
    """Change a count in the footer of `path` from `values` to `stated`; the pages keep their counts."""
    content = path.read_bytes()
    (footer_bytes,) = struct.unpack("<I", content[-8:-4])
    footer = content[-8 - footer_bytes : -8]
    before, after = _varint(values), _varint(stated)
    padded = bytes(byte | 128 for byte in after) + b"\x80" * (len(before) - len(after) - 1) + b"\0"
    assert footer.count(before)
    path.write_bytes(content[: -8 - footer_bytes] + footer.replace(before, padded) + content[-8:])


def _varint(value: int) -> bytes:
    """Encode a number as a zigzag varint of Thrift's compact protocol."""
    value, result = value << 1, b""
    while value > 127:
        value, result = value >> 7, result + bytes([value & 127 | 128])
    return result + bytes([value])


def test_text_that_repeats_is_held_once_and_refused_where_every_row_wants_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    store = RecordStore.create(tmp_path)
    for index in range(20):
        store.append(example_record(index))
    store.compact()
    monkeypatch.setattr(limits, "MOST_PLAIN_BYTES", 10_000)
    assert len(store.read()) == 20
    assert len(store.read_table(["record_id", "seed"])) == 20
    with pytest.raises(DatasetError, match=r"has over 0 MiB of text in its rows; read fewer columns or rows"):
        store.read_table()


def test_pages_that_repeat_parts_of_text_are_refused(tmp_path: Path):
    table = pa.table({"record_id": [str(number) for number in range(100)]})
    path = tmp_path / "odd.parquet"
    pq.write_table(
        table.replace_schema_metadata(SCHEMA.arrow.metadata),
        path,
        use_dictionary=False,
        column_encoding={"record_id": "DELTA_BYTE_ARRAY"},
    )
    assert_refused(tmp_path, r"cannot be read as Parquet \(a page has an encoding that autosync does not write\)")


def test_text_that_is_no_unicode_is_refused(tmp_path: Path):
    name = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), pa.array([b"\xff\xfe"]))
    path = written(tmp_path, table_of(example_record()).set_column(0, "record_id", name.cast(pa.binary())))
    assert_refused(tmp_path, r"(has columns of types that|cannot be read)")
    assert path.exists()


def test_a_pipe_a_folder_and_a_ring_of_links_are_no_files_of_records(tmp_path: Path):
    for make in (os.mkfifo, os.mkdir, lambda path: os.symlink(path, path)):
        directory = tmp_path / str(len(list(tmp_path.iterdir())))
        directory.mkdir()
        make(directory / "odd.parquet")
        with pytest.raises(DatasetError, match=r"must hold only Parquet files, but .*odd\.parquet is no such file"):
            RecordStore(directory).read()
