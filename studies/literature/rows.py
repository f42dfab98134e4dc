"""The kept rows of experiments; a row is one figure of one arm of one cell, for one seed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass

import numpy as np

from autosync.dataset import ResultColumn

COLUMNS = (
    ResultColumn("experiment", "text", "none", "name of the experiment"),
    ResultColumn("cell", "text", "none", "what all arms of it share, such as how passes vary"),
    ResultColumn("arm", "text", "none", "what was tried"),
    ResultColumn("seed", "integer", "none", "of what was drawn; arms of a seed were given the same"),
    ResultColumn("figure", "text", "none", "what was measured, and its unit"),
    ResultColumn("value", "number", "of the figure", "infinite where something was not reached"),
    ResultColumn("time", "text", "none", "real, paced or virtual; none where no seconds are in it"),
    ResultColumn("numbers", "text", "none", "real where gradients are computed; none where there are none"),
    ResultColumn("version", "integer", "none", "of the experiment"),
)


@dataclass(frozen=True)
class FigureRow:
    """One figure, with the fields of `COLUMNS` except the experiment and its version."""

    cell: str
    arm: str
    seed: int
    figure: str
    value: float
    time: str = "virtual"
    numbers: str = "none"


@dataclass(frozen=True)
class FigureRows:
    """All rows of one experiment."""

    all: tuple[FigureRow, ...]

    @classmethod
    def of(cls, records: Iterable[dict[str, object]]) -> FigureRows:
        names = FigureRow.__dataclass_fields__
        return cls(tuple(FigureRow(**{name: row[name] for name in names}) for row in records))  # type: ignore[arg-type]

    def values(self, cell: str, arm: str, figure: str) -> dict[int, float]:
        """Return the figure by seed."""
        return {row.seed: row.value for row in self.all if (row.cell, row.arm, row.figure) == (cell, arm, figure)}

    def ratios(self, cell: str, arm: str, over: str, figure: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Return the figure of `arm` divided by that of `over`, for each seed that both have."""
        mine, base = self.values(cell, arm, figure), self.values(cell, over, figure)
        return np.array([mine[seed] / base[seed] for seed in mine if seed in base])

    def arms(self, cell: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(row.arm for row in self.all if row.cell == cell))

    @property
    def cells(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(row.cell for row in self.all))

    def figures(self, cell: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(row.figure for row in self.all if row.cell == cell))


def to_record(row: FigureRow, experiment: str, version: int) -> dict[str, object]:
    """Return the row as a record of `COLUMNS`."""
    return asdict(row) | {"experiment": experiment, "version": version}
