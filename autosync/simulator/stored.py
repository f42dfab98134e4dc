"""Stored records for the room's commands: the one place where it reads the dataset."""

from __future__ import annotations

from pathlib import Path

from autosync.dataset import RecordStore, split_of
from autosync.simulator.evaluation import EvaluationError
from autosync.spec import RuntimeRecord

__all__ = ["split_of", "stored_records"]


def stored_records(data: Path) -> list[RuntimeRecord]:
    """The records in the folder `data`, or in `records` within it. Raises `EvaluationError` when there are none."""
    inside = data / "records"
    folder = inside if inside.is_dir() else data
    if not folder.is_dir():
        raise EvaluationError(f"--data names a folder of records, but there is no folder {data}.")
    records = RecordStore(folder).read()
    if not records:
        raise EvaluationError(f"--data names a folder of records, but there are none in {folder}; collect some first.")
    return records
