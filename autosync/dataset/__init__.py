"""The Arrow package: records as Parquet files that pandas and Ray Data can open too, and the AutoSync dataset's
import.
"""

from autosync.dataset.files import records_folder
from autosync.dataset.quiet_ray import quietly
from autosync.dataset.ray_reader import ray_dataset, read_rows
from autosync.dataset.results import ResultColumn, ResultStore
from autosync.dataset.schema import COLUMNS, SCHEMA, Column, Schema
from autosync.dataset.split import SPLITS, split_of, split_records
from autosync.dataset.store import RecordStore
from autosync.dataset.streaming import (
    BlockShare,
    RowBlock,
    arrays_in,
    blocks_of,
    read_arrays,
    records_with_ids,
    stream_blocks,
    total_bytes,
)

__all__ = [
    "COLUMNS",
    "SCHEMA",
    "SPLITS",
    "BlockShare",
    "Column",
    "RecordStore",
    "ResultColumn",
    "ResultStore",
    "RowBlock",
    "Schema",
    "arrays_in",
    "blocks_of",
    "quietly",
    "ray_dataset",
    "read_arrays",
    "read_rows",
    "records_folder",
    "records_with_ids",
    "split_of",
    "split_records",
    "stream_blocks",
    "total_bytes",
]
