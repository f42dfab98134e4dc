"""What other cells teach: a simulator fitted on all cells but the one that is searched."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Sequence
from pathlib import Path

from autosync.bench.contenders import MEMBERS, NETWORK, untaught
from autosync.cost import Replay
from autosync.spec import RuntimeRecord
from autosync.spec.codec import digest
from autosync.tune.recorded.cells import Cell

__all__ = ["checkpoint_of"]

MOST_RECORDS = 400
"""Evenly taken from all cells when there are more."""


def checkpoint_of(cells: Sequence[Cell], folder: Path) -> Path:
    """A checkpoint of `NETWORK` taught on `cells`, made once and kept in `folder`."""
    path = folder / digest([NETWORK, MEMBERS, MOST_RECORDS, sorted(cell.digest for cell in cells)])
    if not path.exists():
        simulator = untaught(Replay())
        simulator.fit(_records(cells))
        partial = folder / f".{path.name}.{uuid.uuid4().hex}"
        simulator.save(partial)
        try:
            partial.rename(path)
        except OSError:  # another process was faster, with the same checkpoint
            shutil.rmtree(partial)
    return path


def _records(cells: Sequence[Cell]) -> list[RuntimeRecord]:
    records = [each for cell in cells for trials in cell.trials.values() for each in trials if each.timed]
    if len(records) <= MOST_RECORDS:
        return records
    return [records[index * len(records) // MOST_RECORDS] for index in range(MOST_RECORDS)]
