"""Recorded trials in place of a cluster: cells, pools to search in, and a table that answers with a clock."""

from autosync.tune.recorded.cells import RecordedCell, read_cells, recorded_cells
from autosync.tune.recorded.pool import PoolSpace, RecordedTable

__all__ = ["PoolSpace", "RecordedCell", "RecordedTable", "read_cells", "recorded_cells"]
