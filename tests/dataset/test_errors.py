"""What a person reads when a directory of records cannot be used."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from autosync.dataset import RecordStore, ray_dataset
from autosync.errors import DatasetError
from tests.dataset.examples import example_record

NOBODY = 65534


@pytest.fixture
def store(tmp_path: Path) -> RecordStore:
    return RecordStore.create(tmp_path)


@pytest.fixture
def ordinary_user() -> Iterator[None]:
    """Without the superuser's rights, for whom no directory is read-only."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    yield
    os.seteuid(user)


@contextmanager
def full_disk() -> Iterator[None]:
    """No file may grow over 256 bytes; not even pytest's own output, so nothing is printed within."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (256, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.usefixtures("ordinary_user")
def test_a_directory_that_cannot_be_written_is_refused_at_once():
    with pytest.raises(DatasetError, match=r"cannot be written to /proc/.*another directory"):
        RecordStore.create(Path("/proc/autosync-records"))
    with pytest.raises(DatasetError, match=r"cannot be written to /usr: Permission denied\. .*another directory"):
        RecordStore.create(Path("/usr"))


def test_a_file_in_the_place_of_the_directory_is_refused_at_once(tmp_path: Path):
    place = tmp_path / "data"
    place.write_text("not a directory")
    with pytest.raises(DatasetError, match=r"cannot be written to .*data: File exists.*another directory"):
        RecordStore.create(place)
    assert place.read_text() == "not a directory"


def test_a_full_disk_is_one_sentence_and_leaves_nothing_behind(store: RecordStore):
    with pytest.raises(DatasetError, match=r"cannot be written to .*Free the disk"), full_disk():
        store.append(example_record())
    assert list(store.directory.iterdir()) == []


def test_a_missing_directory_has_no_records_to_read(tmp_path: Path):
    with pytest.raises(DatasetError, match=r"No records can be read from .*nowhere: No such file.*autosync wrote"):
        RecordStore(tmp_path / "nowhere").read()


@pytest.mark.parametrize("name", ["notes.txt", "old.parquet.bak"])
def test_a_file_that_is_not_parquet_is_named(store: RecordStore, name: str):
    (store.directory / name).write_text("hello")
    for read in (store.read, store.compact, store.read_table, lambda: RecordStore.create(store.directory)):
        with pytest.raises(DatasetError, match=rf"Parquet files only, but .*{name} is none; move it elsewhere"):
            read()


def test_a_half_written_file_is_named(store: RecordStore):
    store.append(example_record())
    (path,) = store.directory.iterdir()
    path.write_bytes(path.read_bytes()[:-100])
    for read in (store.read, lambda: RecordStore.create(store.directory)):
        with pytest.raises(DatasetError, match=rf"{path.name} cannot be read as Parquet .*half-written or foreign"):
            read()


def test_an_empty_file_is_named(store: RecordStore):
    (store.directory / "empty.parquet").touch()
    with pytest.raises(DatasetError, match=r"empty.parquet cannot be read as Parquet .*move it elsewhere"):
        store.read()


def test_a_parquet_file_of_something_else_is_named(store: RecordStore):
    pq.write_table(pa.table({"price": [1.0]}), store.directory / "prices.parquet")
    with pytest.raises(DatasetError, match=r"prices.parquet is Parquet, but not of autosync's records"):
        store.read()


def test_a_row_that_breaks_a_rule_of_records_is_named(store: RecordStore):
    identity = store.append(example_record())
    (path,) = store.directory.iterdir()
    table = pq.read_table(path)
    position = table.column_names.index("outcome")
    pq.write_table(table.set_column(position, table.schema.field(position), [["splendid"]]), path)
    with pytest.raises(DatasetError, match=f"Row '{identity}' of .*{path.name} is no valid record: A record's outcome"):
        store.read()


def test_a_seed_of_more_than_64_bits_is_refused_with_a_sentence(store: RecordStore):
    with pytest.raises(DatasetError, match=r"does not fit its column: .*Seeds have 64 bits"):
        store.append(replace(example_record(), seed=2**70))


def test_ray_data_needs_a_record(store: RecordStore):
    with pytest.raises(DatasetError, match="holds none; run a trial first"):
        ray_dataset(store.directory)
