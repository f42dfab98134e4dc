"""The simulators that guided search starts from: taught by other models on other clusters than the searched cell's."""

from collections.abc import Sequence
from pathlib import Path

from autosync.stats.cells import CellName
from autosync.tune.recorded.cells import RecordedCell, read_cells
from studies.bench.replaying import checkpoint_of, strange_to
from studies.bench.runs import ALL_MEMBERS
from studies.proof.cells import FRAMEWORK


def teachers(data: Path) -> list[RecordedCell]:
    """Return the recorded cells in `data`. Raises `DatasetError`."""
    return read_cells(data)[0]


def checkpoint_for(cell: CellName, recorded: Sequence[RecordedCell], folder: Path) -> Path:
    """Return the checkpoint for a search of `cell`, made in seconds unless `folder` has it."""
    strange = strange_to(recorded, cell.model, cell.cluster)
    return checkpoint_of(strange, folder, ALL_MEMBERS, None, FRAMEWORK)
