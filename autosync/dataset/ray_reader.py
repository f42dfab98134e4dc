"""Records as a Ray Data dataset. Ray is imported only on use."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from autosync.dataset.files import read_file
from autosync.dataset.quiet_ray import quietly
from autosync.dataset.store import RecordStore
from autosync.errors import DatasetError
from autosync.spec.address import Place, absolute, place_of

if TYPE_CHECKING:
    import ray.data

READ_ATTEMPTS = 5


def ray_dataset(directory: Place) -> ray.data.Dataset:
    """Return a lazy dataset of the rows in `directory` (columns: `autosync.dataset.COLUMNS`), read by Ray on this node.

    Starts Ray if it is not running. The files must not be compacted before the dataset is read. Raises `DatasetError`
    if there are no records. Reading a damaged file raises Ray's own error, which includes the cause.
    """
    return _dataset(directory)


def read_rows(directory: Place, columns: Sequence[str], ids: Collection[str] | None = None) -> list[dict[str, Any]]:
    """Return some columns of all rows, or of the rows with these ids, read by Ray Data on this node alongside other
    work.

    The read starts over if another process merges files meanwhile. Raises the errors of `ray_dataset`.
    """
    from ray.exceptions import RayTaskError

    wanted = None if ids is None else frozenset(ids)
    for _ in range(READ_ATTEMPTS):
        try:
            with quietly():
                rows = _dataset(directory, columns=list(columns), num_cpus=0)
                if wanted is not None:
                    rows = rows.filter(lambda row: row["record_id"] in wanted, num_cpus=0)
                return list(rows.take_all())
        except (FileNotFoundError, RayTaskError) as error:
            if "FileNotFound" not in f"{type(error).__name__}{error}":
                for path in RecordStore(directory).current_files():  # Ray's error is pages long: repeat the read here
                    read_file(path, columns=columns)
                raise
    raise DatasetError(f"Files in {directory} keep vanishing while they are read; stop what deletes them.")


def _dataset(directory: Place, columns: Sequence[str] | None = None, **reading: Any) -> ray.data.Dataset:
    import ray.data

    files = RecordStore(directory).current_files()
    if not files:
        raise DatasetError(
            f"Ray Data needs a record to know the columns, but {directory} holds no record; run a trial first."
        )
    # Ray's own reader verifies no checksums and has no limits. Absolute paths, because workers have other folders.
    paths = ray.data.from_items([{"path": str(absolute(path))} for path in files])

    def rows(batch: pa.Table) -> pa.Table:
        return pa.concat_tables(read_file(place_of(path), columns=columns) for path in batch.column("path").to_pylist())

    # Run on this node, because other nodes may lack the files.
    this_node = {"ray.io/node-id": ray.get_runtime_context().get_node_id()}
    return paths.map_batches(rows, batch_size=1, batch_format="pyarrow", label_selector=this_node, **reading)
