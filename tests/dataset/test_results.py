"""Results on disk: complete, typed, replaced instead of duplicated, and distinguished from other files."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from autosync.dataset import ResultColumn, ResultStore
from autosync.errors import DatasetError

COLUMNS = (
    ResultColumn("who", "text", "none", "a name"),
    ResultColumn("seconds", "numbers", "s", "some times"),
    ResultColumn("good", "flag", "none", "yes or no"),
)
ROWS = [{"who": "a", "seconds": [1.5, math.inf], "good": True}, {"who": "b", "seconds": [], "good": False}]


def test_what_is_written_is_read_and_a_key_is_known(tmp_path: Path) -> None:
    store = ResultStore.create(tmp_path / "new", COLUMNS)
    assert "one" not in store
    store.write("one", ROWS)
    assert "one" in store
    assert store.read() == ROWS


def test_rows_of_a_key_are_replaced(tmp_path: Path) -> None:
    store = ResultStore.create(tmp_path, COLUMNS)
    store.write("one", ROWS)
    store.write("one", ROWS[:1])
    store.write("two", ROWS[1:])
    assert store.read() == ROWS


def test_a_store_that_is_not_there_has_no_rows(tmp_path: Path) -> None:
    assert ResultStore(tmp_path / "nowhere", COLUMNS).read() == []


def test_columns_state_their_unit_and_meaning_in_the_file(tmp_path: Path) -> None:
    ResultStore.create(tmp_path, COLUMNS).write("one", ROWS)
    field = pq.read_schema(tmp_path / "one.parquet").field("seconds")
    assert field.metadata == {b"unit": b"s", b"meaning": b"some times"}


def test_files_of_other_columns_and_foreign_files_are_refused_by_name(tmp_path: Path) -> None:
    ResultStore.create(tmp_path, COLUMNS[:2]).write("one", [{"who": "a", "seconds": []}])
    with pytest.raises(DatasetError, match=r"one\.parquet must have the columns of these .*, but has who, seconds"):
        ResultStore(tmp_path, COLUMNS).read()
    (tmp_path / "one.parquet").write_bytes(b"nonsense")
    with pytest.raises(DatasetError, match=r"one\.parquet cannot be read as Parquet .*; move it elsewhere\."):
        ResultStore(tmp_path, COLUMNS).read()


def test_merged_results_are_one_file_and_read_as_before(tmp_path: Path) -> None:
    store = ResultStore.create(tmp_path, COLUMNS)
    store.write("two", ROWS[1:])
    store.write("one", ROWS[:1])
    store.write("none", [])
    before = store.read()
    assert store.merge() == 3
    assert [path.name for path in tmp_path.iterdir()] == ["merged.parquet"]
    assert store.read() == before
    assert all(key in store for key in ("one", "two", "none"))
    assert "three" not in store
    assert pq.read_schema(tmp_path / "merged.parquet").field("seconds").metadata[b"unit"] == b"s"


def test_results_are_added_to_merged_ones_replace_them_and_are_merged_again(tmp_path: Path) -> None:
    store = ResultStore.create(tmp_path, COLUMNS)
    store.write("one", ROWS[:1])
    store.merge()
    store.write("two", ROWS[1:])
    assert store.read() == ROWS
    store.write("one", ROWS)
    assert store.read() == [*ROWS, ROWS[1]]
    assert store.merge() == 2
    assert store.read() == [*ROWS, ROWS[1]]
    assert len(list(tmp_path.iterdir())) == 1


def test_nothing_is_merged_where_nothing_is(tmp_path: Path) -> None:
    assert ResultStore(tmp_path / "nowhere", COLUMNS).merge() == 0
    assert ResultStore.create(tmp_path / "empty", COLUMNS).merge() == 0
    assert not list((tmp_path / "empty").iterdir())


def test_a_merged_file_that_does_not_say_whose_its_rows_are_is_refused(tmp_path: Path) -> None:
    store = ResultStore.create(tmp_path, COLUMNS)
    store.write("merged", ROWS)
    for ask in (store.read, store.merge, lambda: "one" in store):
        with pytest.raises(DatasetError, match=r"merged\.parquet must state the number of rows .*; remove it\."):
            ask()


@pytest.mark.parametrize("key", ["../outside", "/etc/outside", "a/../../outside", "merged", ""])
def test_a_key_of_a_merged_file_names_no_file_elsewhere(tmp_path: Path, key: str) -> None:
    outside = tmp_path / "outside.parquet"
    store = ResultStore.create(tmp_path / "store", COLUMNS)
    store.write("one", ROWS)
    (tmp_path / "store" / "one.parquet").rename(outside)
    table = pq.read_table(outside)
    hostile = table.replace_schema_metadata({b"autosync.rows": json.dumps({key: len(table)})})
    pq.write_table(hostile, tmp_path / "store" / "merged.parquet")
    with pytest.raises(DatasetError, match=r"merged\.parquet must state the number of rows .*; remove it\."):
        store.merge()
    assert outside.exists()
