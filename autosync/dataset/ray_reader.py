"""Records as a Ray Data dataset. Ray is imported when it is asked for, not before."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from autosync.dataset.store import RecordStore
from autosync.errors import DatasetError

if TYPE_CHECKING:
    import ray.data

__all__ = ["ray_dataset"]


def ray_dataset(directory: Path) -> ray.data.Dataset:
    """A lazy dataset of the rows in `directory` (columns: `autosync.dataset.COLUMNS`), read by Ray's workers.

    Starts Ray when it is not running. The files must not be compacted before the dataset is read.
    Raises `DatasetError` when there are no records.
    """
    import ray.data

    files = RecordStore(directory).current_files()
    if not files:
        raise DatasetError(
            f"Ray Data needs a record to know the columns, but {directory} holds none; run a trial first."
        )
    return ray.data.read_parquet([str(path) for path in files])
