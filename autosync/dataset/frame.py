"""Rows as a pandas DataFrame. pandas is imported when a frame is requested, because autosync does not depend on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from autosync.errors import AutosyncError

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["DataFrame", "frame_of"]


def frame_of(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> DataFrame:
    """A frame with `columns` and a row for each of `rows`. Raises `AutosyncError` without pandas."""
    if find_spec("pandas") is None:
        raise AutosyncError(
            "A table of trials is a pandas DataFrame, and pandas is not installed; run `pip install pandas`, or use "
            "`records`."
        )
    from pandas import DataFrame

    return DataFrame([dict(row) for row in rows], columns=list(columns))
