"""Records are appended, read, filtered, merged, and opened by pandas."""

from __future__ import annotations

import math
import multiprocessing
import os
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from autosync.dataset import COLUMNS, RecordStore
from autosync.dataset.files import TEMPORARY_PREFIX, TEMPORARY_SUFFIX
from tests.dataset.examples import example_record, failed_record


@pytest.fixture
def store(tmp_path: Path) -> RecordStore:
    return RecordStore.create(tmp_path / "deep" / "data")


def visible(store: RecordStore) -> list[str]:
    return sorted(name for name in os.listdir(store.directory) if not name.startswith("."))


def test_records_come_back_as_they_were_in_order_of_their_start(store: RecordStore):
    records = [example_record(index) for index in range(12)]
    for record in reversed(records):
        store.append(record)
    assert store.read() == records


def test_a_failed_record_with_a_loss_that_is_not_a_number_is_kept(store: RecordStore):
    store.append(failed_record())
    (record,) = store.read()
    assert (record.outcome, record.reason, record.step_seconds) == ("failed", "the loss is nan", ())
    assert record.final_loss is not None
    assert math.isnan(record.final_loss)
    assert record.predicted_seconds is None


def test_records_of_one_read_share_their_model(store: RecordStore):
    store.append(example_record(0))
    store.append(example_record(1))
    first, second = store.read()
    assert first.model is second.model


def test_records_are_chosen_by_model_cluster_and_run(store: RecordStore):
    mine, other = example_record(0, run="mine"), example_record(1, run="other")
    store.append(mine)
    store.append(other)
    assert store.read(run="mine") == [mine]
    assert store.read(model_digest=mine.model.digest, cluster_digest=mine.cluster.digest) == [mine, other]
    assert store.read(model_digest="0" * 16) == []


def test_a_record_appended_twice_is_one_row(store: RecordStore):
    assert store.append(example_record()) == store.append(example_record())
    assert store.read() == [example_record()]


def test_an_empty_store_has_no_records_and_every_column(store: RecordStore):
    assert store.read() == []
    assert store.read_table().column_names == [column.name for column in COLUMNS]
    assert store.compact() == 0


def test_every_column_of_a_file_states_its_unit_and_meaning(store: RecordStore):
    store.append(example_record())
    schema = pq.read_schema(store.directory / visible(store)[0])
    for field in schema:
        assert set(field.metadata) == {b"unit", b"meaning"}
        assert all(field.metadata.values())
    assert schema.field("median_seconds").metadata[b"unit"] == b"s"


def test_flat_columns_can_be_queried(store: RecordStore):
    record = example_record(3)
    store.append(record)
    row = store.to_pandas().iloc[0]
    assert row["median_seconds"] == record.median_seconds
    assert row["strategy_digest"] == record.strategy.digest
    assert (row["replicas"], row["warmup_steps"]) == (2, 2)


def test_compaction_leaves_one_file_with_the_same_records(store: RecordStore):
    records = [example_record(index) for index in range(10)]
    for record in records:
        store.append(record)
    assert store.compact() == 10
    assert len(visible(store)) == 1
    assert store.read() == records
    assert store.compact() == 0
    assert store.read() == records


def test_compaction_again_merges_what_came_since(store: RecordStore):
    for index in range(6):
        store.append(example_record(index))
        store.compact()
    assert len(visible(store)) == 1
    assert store.read() == [example_record(index) for index in range(6)]


def test_rows_that_a_killed_compaction_left_twice_are_read_once_and_tidied_by_the_next(store: RecordStore):
    store.append(example_record(0))
    store.append(example_record(1))
    store.compact()
    store.append(example_record(0))
    assert len(visible(store)) == 2
    assert store.read() == [example_record(0), example_record(1)]
    assert store.read_table().num_rows == 2
    assert [path.name for path in store.current_files()] == [name for name in visible(store) if "records-" in name]
    store.compact()
    assert len(visible(store)) == 1
    assert store.read() == [example_record(0), example_record(1)]


def test_big_files_are_not_merged_again(store: RecordStore, monkeypatch: pytest.MonkeyPatch):
    for index in range(4):
        store.append(example_record(index))
    monkeypatch.setattr("autosync.dataset.store.FULL_BYTES", 1)
    assert store.compact() == 0
    assert len(visible(store)) == 4


def test_batches_of_a_full_size_are_merged_apart(store: RecordStore, monkeypatch: pytest.MonkeyPatch):
    for index in range(6):
        store.append(example_record(index))
    file_bytes = max((store.directory / name).stat().st_size for name in visible(store))
    monkeypatch.setattr("autosync.dataset.store.FULL_BYTES", file_bytes + 1)
    assert store.compact() == 6
    assert len(visible(store)) == 3
    assert store.read() == [example_record(index) for index in range(6)]


def test_compaction_deletes_only_old_temporary_files(store: RecordStore):
    old, young = (store.directory / f"{TEMPORARY_PREFIX}{name}{TEMPORARY_SUFFIX}" for name in ("old", "young"))
    for path in (old, young):
        path.write_bytes(b"PAR1 half a file")
    two_hours_ago = young.stat().st_mtime - 7200
    os.utime(old, (two_hours_ago, two_hours_ago))
    assert store.read() == []
    store.compact()
    assert not old.exists()
    assert young.exists()


def test_pandas_reads_the_plain_directory_beside_temporary_files(store: RecordStore):
    for index in range(3):
        store.append(example_record(index))
    store.compact()
    store.append(failed_record(7))
    (store.directory / f"{TEMPORARY_PREFIX}half{TEMPORARY_SUFFIX}").write_bytes(b"PAR1 half a file")
    frame = pd.read_parquet(store.directory)
    assert sorted(frame["seed"]) == [0, 1, 2, 7]
    assert list(frame[frame["outcome"] == "failed"]["reason"]) == ["the loss is nan"]


def _append_series(directory: str, start: int, count: int) -> None:
    store = RecordStore.create(Path(directory))
    for index in range(start, start + count):
        store.append(example_record(index))
        if index % 5 == 4:
            store.compact()


def test_two_processes_append_and_compact_at_once_and_lose_nothing(store: RecordStore):
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_append_series, args=(str(store.directory), start, 25)) for start in (0, 100)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        store.read()  # a concurrent reader never sees a half-written or missing file
    assert [writer.exitcode for writer in writers] == [0, 0]
    assert [record.seed for record in store.read()] == [*range(25), *range(100, 125)]
