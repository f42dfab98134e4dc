"""Records of training to a target lie next to those of step times, and neither disturbs the other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from autosync.dataset import RecordStore, ResultStore
from autosync.dataset.target_store import COLUMNS, FOLDER, TargetStore
from autosync.errors import DatasetError
from tests.dataset.examples import example_record
from tests.race.runs import new_race, run_of


def records():
    race = new_race()
    first = race.next()
    assert first is not None
    record = run_of(first, 100, 0.1)
    return [replace(record, seed=seed, started_at=1e9 + seed) for seed in range(3)]


def test_records_read_back_as_they_were_and_once(tmp_path: Path) -> None:
    store, written = TargetStore.create(tmp_path), records()
    for record in (*reversed(written), written[0]):
        store.append(record)
    assert store.read() == written
    table = pd.read_parquet(tmp_path / FOLDER)
    assert list(table.columns) == [column.name for column in COLUMNS]
    assert sorted(table["seconds"]) == sorted(record.seconds for record in written)


def test_they_lie_beside_records_of_step_times(tmp_path: Path) -> None:
    TargetStore.create(tmp_path).append(records()[0])
    times = RecordStore.create(tmp_path)
    times.append(example_record(0))
    assert times.compact() == 0, "one file is whole"
    assert times.read() == [example_record(0)]
    assert TargetStore.create(tmp_path).read() == records()[:1]


def test_a_row_that_is_no_record_is_refused(tmp_path: Path) -> None:
    store = TargetStore.create(tmp_path)
    row = {column.name: None for column in COLUMNS} | {"record_json": "{}"}
    ResultStore(tmp_path / FOLDER, COLUMNS).write("wrong", [row])
    with pytest.raises(DatasetError, match="is not a valid target record"):
        store.read()
