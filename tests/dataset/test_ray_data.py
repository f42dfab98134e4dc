"""Ray Data reads the store and the plain directory."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from autosync.dataset import COLUMNS, RecordStore, ray_dataset, read_rows, records_with_ids
from autosync.dataset.files import TEMPORARY_PREFIX, TEMPORARY_SUFFIX
from autosync.dataset.schema import record_id
from autosync.errors import DatasetError
from tests.dataset.examples import example_record, failed_record

OLD = Path(__file__).parents[1] / "data" / "records_v1.parquet"


def flip_a_seed(directory: Path) -> Path:
    """Flip a bit of the seeds in the largest file. Readers that only read the ids do not notice."""
    path = max(directory.glob("records-*.parquet"), key=lambda file: file.stat().st_size)
    group = pq.read_metadata(path).row_group(0)
    (seeds,) = (chunk for chunk in map(group.column, range(group.num_columns)) if chunk.path_in_schema == "seed")
    at, content = seeds.data_page_offset - 3, bytearray(path.read_bytes())  # the end of the dictionary before it
    content[at] ^= 16
    path.write_bytes(bytes(content))
    return path


@pytest.mark.thorough
def test_ray_data_reads_merged_and_single_files_beside_temporary_ones(tmp_path: Path):
    import ray

    store = RecordStore.create(tmp_path)
    for index in range(3):
        store.append(example_record(index))
    store.compact()
    store.append(failed_record(7))
    store.append(example_record(0))  # as a compaction killed before its deletions would leave it
    (tmp_path / f"{TEMPORARY_PREFIX}half{TEMPORARY_SUFFIX}").write_bytes(b"PAR1 half a file")
    ray.init(num_cpus=1, include_dashboard=False, configure_logging=False, log_to_driver=False)
    try:
        rows = ray_dataset(tmp_path).take_all()
        plain = ray.data.read_parquet(str(tmp_path)).take_all()
        shutil.copy(OLD, tmp_path)
        short = read_rows(tmp_path, ["record_id", "seed"])
        wanted = {row["record_id"] for row in short if row["seed"] not in (0, 2)}
        records = records_with_ids(tmp_path, wanted)
        damaged = flip_a_seed(tmp_path)
        with pytest.raises(
            DatasetError, match=rf"^\S*{damaged.name} cannot be read as Parquet .*; move it elsewhere\.$"
        ):
            read_rows(tmp_path, ["record_id", "seed"])
    finally:
        ray.shutdown()
    assert sorted(row["seed"] for row in rows) == [0, 1, 2, 7]
    assert sorted(row["seed"] for row in plain) == [0, 0, 1, 2, 7]
    assert set(rows[0]) == {column.name for column in COLUMNS}
    assert set(short[0]) == {"record_id", "seed"}
    assert [record_id(record) for record in records] == sorted(wanted), "no record is lost"
    assert {record.seed for record in records} == {1, 7, 8}, "the last is from a file of an older version"
