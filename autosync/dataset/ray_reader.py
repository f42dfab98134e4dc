"""Records as a Ray Data dataset. Ray is imported when it is asked for, not before."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from autosync.dataset.files import read_file
from autosync.dataset.schema import COLUMNS, PLAIN, RecordReader
from autosync.dataset.store import RecordStore
from autosync.errors import DatasetError
from autosync.spec import RuntimeRecord
from autosync.spec.address import Place, absolute, place_of

if TYPE_CHECKING:
    import ray.data

READ_ATTEMPTS = 5

NEEDED = ("record_id", "model_json", "cluster_json", "strategy_json", "protocol_json", "step_seconds", "versions")
"""Columns that a record is made of, beside those of `PLAIN`."""


def ray_dataset(directory: Place) -> ray.data.Dataset:
    """A lazy dataset of the rows in `directory` (columns: `autosync.dataset.COLUMNS`), read by Ray on this node.

    Starts Ray when it is not running. The files must not be compacted before the dataset is read.
    Raises `DatasetError` when there are no records; reading a damaged file raises Ray's own error, which tells it.
    """
    return _dataset(directory)


def read_rows(directory: Place, columns: Sequence[str], ids: Collection[str] | None = None) -> list[dict[str, Any]]:
    """Some columns of all rows, or of those of these ids, read by Ray Data on this node beside whatever it runs.

    Starts over when another process merges files meanwhile. Raises `DatasetError` as `ray_dataset` does.
    """
    from ray.exceptions import RayTaskError

    wanted = None if ids is None else frozenset(ids)
    for _ in range(READ_ATTEMPTS):
        try:
            with _quietly():
                rows = _dataset(directory, columns=list(columns), num_cpus=0)
                if wanted is not None:
                    rows = rows.filter(lambda row: row["record_id"] in wanted, num_cpus=0)
                return list(rows.take_all())
        except (FileNotFoundError, RayTaskError) as error:
            if "FileNotFound" not in f"{type(error).__name__}{error}":
                for path in RecordStore(directory).current_files():  # Ray's error is pages long: read what failed here
                    read_file(path, columns=columns)
                raise
    raise DatasetError(f"Files in {directory} keep vanishing while they are read; stop what deletes them.")


def records_with_ids(directory: Place, ids: Collection[str]) -> list[RuntimeRecord]:
    """The records of those ids, in the order of their ids; what only later versions of the files hold is left out.

    Raises `DatasetError` as `ray_dataset` does, and when a row breaks a rule of records.
    """
    first = [column.name for column in COLUMNS if column.since == 1]
    columns = [name for name in first if name in NEEDED or name in PLAIN]
    by_id = {row["record_id"]: row for row in read_rows(directory, columns, ids)}
    reader, later = RecordReader(), {column.name: column.fill for column in COLUMNS if column.since > 1}
    return [reader.record(later | by_id[each], str(directory)) for each in sorted(by_id)]


def _dataset(directory: Place, columns: Sequence[str] | None = None, **reading: Any) -> ray.data.Dataset:
    import ray.data

    files = RecordStore(directory).current_files()
    if not files:
        raise DatasetError(
            f"Ray Data needs a record to know the columns, but {directory} holds none; run a trial first."
        )
    # Ray's own reader verifies no checksum and knows no limit. Whole paths: its workers are in folders of their own.
    named = ray.data.from_items([{"path": str(absolute(path))} for path in files])

    def rows(batch: pa.Table) -> pa.Table:
        return pa.concat_tables(read_file(place_of(path), columns=columns) for path in batch.column("path").to_pylist())

    # Only this node has to have the files.
    here = {"ray.io/node-id": ray.get_runtime_context().get_node_id()}
    return named.map_batches(rows, batch_size=1, batch_format="pyarrow", label_selector=here, **reading)


@contextmanager
def _quietly() -> Iterator[None]:
    """Let Ray Data show nothing in the block, and ask for no CPU: newer readers want one, which may never be free."""
    import ray.data

    wanted = {"use_datasource_v2": False, "enable_progress_bars": False}
    context, log = ray.data.DataContext.get_current(), logging.getLogger("ray.data")
    before, level = {name: getattr(context, name) for name in wanted if hasattr(context, name)}, log.level
    try:
        log.setLevel(logging.CRITICAL)
        for name in before:
            setattr(context, name, wanted[name])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it would rather be given an expression of its own
            yield
    finally:
        log.setLevel(level)
        for name, value in before.items():
            setattr(context, name, value)
