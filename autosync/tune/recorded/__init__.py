"""Recorded trials instead of a cluster: cells, and a table that answers proposals by a clock."""

from autosync.tune.recorded.cells import RecordedCell, cells_of, read_cells
from autosync.tune.recorded.table import RecordedTable

__all__ = ["RecordedCell", "RecordedTable", "cells_of", "read_cells"]
