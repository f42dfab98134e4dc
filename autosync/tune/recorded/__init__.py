"""Recorded trials in place of a cluster: cells, pools to search in, and a table that answers with a clock."""

from autosync.tune.recorded.cells import Cell, cells_of, read_cells
from autosync.tune.recorded.pool import PoolSpace, RecordedTable

__all__ = ["Cell", "PoolSpace", "RecordedTable", "cells_of", "read_cells"]
