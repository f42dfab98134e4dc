"""What other cells teach: a simulator fitted on cells that are not searched."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Sequence
from pathlib import Path

from autosync.bench.contenders import MEMBERS, NETWORK, untaught
from autosync.bench.versions import TAUGHT
from autosync.cost import Replay
from autosync.spec import RuntimeRecord, digest
from autosync.tune.recorded.cells import Cell

__all__ = ["checkpoint_of", "strange_to"]

MOST_RECORDS = 400
"""The most records that a simulator is taught on for a replay; evenly taken from all cells when there are more."""


def checkpoint_of(
    cells: Sequence[Cell], folder: Path, members: int = MEMBERS, most_records: int | None = MOST_RECORDS
) -> Path:
    """A checkpoint of `NETWORK`, an ensemble of `members`, taught on `most_records` of `cells`, or all when None; made
    once and kept in `folder`.
    """
    path = folder / digest([NETWORK, members, most_records, sorted(cell.digest for cell in cells), f"version {TAUGHT}"])
    if not path.exists():
        simulator = untaught(Replay(), members=members)
        simulator.fit(_records(cells, most_records))
        partial = folder / f".{path.name}.{uuid.uuid4().hex}"
        simulator.save(partial)
        try:
            partial.rename(path)
        except OSError:  # another process was faster, with the same checkpoint
            shutil.rmtree(partial)
    return path


def strange_to(cells: Sequence[Cell], model: str, cluster: str) -> list[Cell]:
    """The cells that share neither the model nor the cluster, by name."""
    return [cell for cell in cells if not {model, cluster}.intersection(cell.name.split("@"))]


def _records(cells: Sequence[Cell], most: int | None) -> list[RuntimeRecord]:
    records = [each for cell in cells for trials in cell.trials.values() for each in trials if each.timed]
    if most is None or len(records) <= most:
        return records
    return [records[index * len(records) // most] for index in range(most)]
