"""Records arrive in blocks through Ray Data: all of them, in order, complete, and divisible into shares."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from autosync.dataset import BlockShare, RecordStore, RowBlock, arrays_in, blocks_of, records_with_ids, stream_blocks
from autosync.dataset.files import read_encoded, write_file
from autosync.dataset.schema import record_id, table_of
from autosync.dataset.streaming import ROWS
from autosync.errors import DatasetError
from tests.dataset.examples import example_record, failed_record
from tests.dataset.test_ray_data import flip_a_seed


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> RecordStore:
    """Two files, one of them with several blocks, that share three records."""
    directory = tmp_path_factory.mktemp("records")
    for name, indices in (("records-a.parquet", range(5)), ("records-b.parquet", range(2, 2 * ROWS + 2))):
        write_file(directory, name, pa.concat_tables(table_of(example_record(index)) for index in indices))
    return RecordStore(directory)


@pytest.fixture(scope="module", autouse=True)
def local_ray() -> Iterator[None]:
    import ray

    ray.init(num_cpus=1, include_dashboard=False, configure_logging=False, log_to_driver=False)
    yield
    ray.shutdown()


def seeds(rows: RowBlock) -> dict[str, np.ndarray]:
    return {"seed": np.array([record.seed for record in rows.records], dtype=np.int64), "rows": np.array([len(rows)])}


def test_all_records_come_in_blocks_always_in_the_same_order(store: RecordStore) -> None:
    result = [list(stream_blocks(store.directory, seeds)) for _ in range(2)]
    assert [block["seed"].tolist() for block in result[0]] == [block["seed"].tolist() for block in result[1]]
    together = np.concatenate([block["seed"] for block in result[0]])
    assert set(together.tolist()) == set(range(2 * ROWS + 2))
    assert len(together) == 2 * ROWS + 2 + 3, "a record in two files comes twice"
    assert max(int(block["rows"][0]) for block in result[0]) == ROWS


def test_rows_that_are_taken_bring_none_of_the_other_rows_texts_along(tmp_path: Path) -> None:
    records = [replace(example_record(0), versions={"autosync": f"{number} {'x' * 1000}"}) for number in range(50)]
    write_file(tmp_path, "records-a.parquet", pa.concat_tables(map(table_of, records)))
    all_rows = RowBlock(read_encoded(tmp_path / "records-a.parquet"), "here")
    taken = all_rows.take([7])
    assert taken.records == [records[7]]
    assert len(all_rows.to_bytes()) - len(taken.to_bytes()) > 49 * 1000
    assert RowBlock.from_bytes(taken.to_bytes(), "here").records == [records[7]]


def test_shares_have_all_blocks_between_them_and_none_in_common(store: RecordStore) -> None:
    parts = [list(arrays_in(blocks_of(store.directory, seeds, BlockShare(number, 3)))) for number in range(3)]
    assert all(parts)
    whole = np.concatenate([block["seed"] for block in stream_blocks(store.directory, seeds)])
    shared = np.concatenate([block["seed"] for part in parts for block in part])
    assert sorted(shared.tolist()) == sorted(whole.tolist())


def test_chosen_records_come_whole(tmp_path: Path) -> None:
    store = RecordStore.create(tmp_path)
    records = [example_record(1), failed_record(2), replace(example_record(3), sequence=5, load_average=0.5)]
    for record in [*records, example_record(4)]:
        store.append(record)
    ids = [record_id(record) for record in records]
    result = records_with_ids(tmp_path, ids)
    assert [record_id(record) for record in result] == sorted(ids)
    assert [record.sequence for record in result if record.seed == 3] == [5]
    assert records_with_ids(tmp_path, ["none"]) == []


def test_a_damaged_file_is_named_as_elsewhere(tmp_path: Path) -> None:
    store = RecordStore.create(tmp_path)
    for index in range(2):
        store.append(example_record(index))
    store.compact()
    path = flip_a_seed(tmp_path)
    with pytest.raises(DatasetError, match=rf"{path.name} cannot be read as Parquet .*; move it elsewhere\.$"):
        list(stream_blocks(tmp_path, seeds))
