"""Ray Data reads the store and the plain directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from autosync.dataset import COLUMNS, RecordStore, ray_dataset
from autosync.dataset.files import TEMPORARY_PREFIX, TEMPORARY_SUFFIX
from tests.dataset.examples import example_record, failed_record


@pytest.mark.timeout(240)
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
    finally:
        ray.shutdown()
    assert sorted(row["seed"] for row in rows) == [0, 1, 2, 7]
    assert sorted(row["seed"] for row in plain) == [0, 0, 1, 2, 7]
    assert set(rows[0]) == {column.name for column in COLUMNS}
