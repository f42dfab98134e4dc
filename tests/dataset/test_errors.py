"""The messages for a directory of records that cannot be used."""

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
    """Drop the superuser's rights, because no directory is read-only for the superuser."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    yield
    os.seteuid(user)


@contextmanager
def full_disk() -> Iterator[None]:
    """Limit files to 256 bytes, including pytest's own output, so the block must not print anything."""
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


def test_only_a_full_disk_is_to_be_freed(store: RecordStore):
    store.directory.rmdir()
    with pytest.raises(
        DatasetError, match=r"cannot be written to .*: No such file or directory\. Give another directory\.$"
    ):
        store.append(example_record())


def test_a_missing_directory_has_no_records_to_read(tmp_path: Path):
    with pytest.raises(DatasetError, match=r"No records can be read from .*nowhere: No such file.*autosync wrote"):
        RecordStore(tmp_path / "nowhere").read()


@pytest.mark.parametrize("name", ["notes.txt", "old.parquet.bak"])
def test_a_file_that_is_not_parquet_is_named(store: RecordStore, name: str):
    (store.directory / name).write_text("hello")
    for read in (store.read, store.compact, store.read_table, lambda: RecordStore.create(store.directory)):
        with pytest.raises(
            DatasetError, match=rf"must hold only Parquet files, but .*{name} is no such file; move it elsewhere"
        ):
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


def with_value(path: Path, column: str, value: object) -> None:
    """Replace the value in the only row of `path`."""
    table = pq.read_table(path)
    field = table.schema.field(column)
    changed = table.set_column(table.column_names.index(column), field, pa.array([value], field.type))
    pq.write_table(changed.replace_schema_metadata(table.schema.metadata), path)


DOCUMENTS = ("model_json", "cluster_json", "strategy_json", "protocol_json", "versions")

NESTED = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize("column", DOCUMENTS)
@pytest.mark.parametrize(
    "text",
    [NESTED, '{"name": ' + NESTED + "}", "[]", "null", "1e999", '{"name": 1e999}', '{"name": NaN}', "{", "",
     '{"a": {}}', '{"name": "a", "name": "b"}',
     '{"variables": [0], "nodes": 7, "name": [], "format": "autosync.strategy/1"}'],
    ids=lambda text: text[:12] or "empty",
)  # fmt: skip
def test_a_document_that_is_none_is_refused_by_its_row_and_file(store: RecordStore, column: str, text: str):
    identity = store.append(example_record())
    (path,) = store.directory.iterdir()
    with_value(path, column, text)
    with pytest.raises(DatasetError, match=rf"^Row '{identity}' of .*{path.name} is not a valid record: ") as refusal:
        store.read()
    assert len(str(refusal.value)) < 700
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("outcome", "splendid", "A record's outcome is one of"),
        ("purpose", "x" * 10_000, "A record's purpose is one of"),
        ("reason", "none", "Exactly the records that are not ok state a reason"),
        ("step_seconds", [0.1, float("inf")], "Step seconds are positive and finite"),
        ("step_seconds", [0.1, -0.5], "Step seconds are positive and finite"),
        ("step_seconds", [0.1, None], "A value has the wrong type"),
        ("step_seconds", [], "holds its step seconds"),
        ("started_at", float("inf"), "A record's start is finite"),
        ("started_at", float("nan"), "A record's start is finite"),
        ("setup_seconds", float("nan"), "lengths are at least 0"),
        ("total_seconds", -1.0, "lengths are at least 0"),
        ("total_seconds", float("inf"), "lengths and load are finite"),
        ("load_average", float("inf"), "lengths and load are finite"),
        ("predicted_seconds", float("inf"), "predicted step is finite"),
    ],
)
def test_a_row_that_breaks_a_rule_of_records_is_named(store: RecordStore, column: str, value: object, said: str):
    identity = store.append(example_record())
    (path,) = store.directory.iterdir()
    with_value(path, column, value)
    with pytest.raises(DatasetError, match=rf"^Row '{identity}' of .*{path.name} is not a valid record: .*{said}"):
        store.read()


@pytest.mark.parametrize("column", ["record_id", "model_json", "step_seconds", "seed", "started_at", "outcome"])
def test_a_row_without_a_value_that_all_have_is_refused(store: RecordStore, column: str):
    store.append(example_record())
    (path,) = store.directory.iterdir()
    with_value(path, column, None)
    with pytest.raises(DatasetError, match=rf"{path.name} has rows whose {column} is null; move it elsewhere"):
        store.read()


def test_a_strategy_of_another_model_is_refused(store: RecordStore):
    store.append(example_record())
    (path,) = store.directory.iterdir()
    strategy = pq.read_table(path)["strategy_json"][0].as_py()
    with_value(path, "strategy_json", strategy.replace('"variable":"', '"variable":"no ', 1))
    with pytest.raises(DatasetError, match=r"is not a valid record: Its strategy must decide exactly the variables"):
        store.read()


def test_a_run_is_read_beside_rows_of_other_runs_that_are_no_records(store: RecordStore):
    store.append(example_record(0, "good"))
    store.append(example_record(1, "bad"))
    (path,) = (path for path in store.directory.iterdir() if "bad" in pq.read_table(path)["run"].to_pylist())
    with_value(path, "model_json", NESTED)
    assert store.read(run="good") == [example_record(0, "good")]


def test_a_seed_of_more_than_64_bits_is_refused_with_a_sentence(store: RecordStore):
    with pytest.raises(DatasetError, match=r"does not fit its column: .*Seeds have 64 bits"):
        store.append(replace(example_record(), seed=2**70))


def test_ray_data_needs_a_record(store: RecordStore):
    with pytest.raises(DatasetError, match="holds no record; run a trial first"):
        ray_dataset(store.directory)
