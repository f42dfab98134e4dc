"""What is kept of experiments: a row is one figure of one arm of one cell, for one seed."""

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
class Row:
    """One figure, as of `COLUMNS` but for the experiment and its version."""

    cell: str
    arm: str
    seed: int
    figure: str
    value: float
    time: str = "virtual"
    numbers: str = "none"


@dataclass(frozen=True)
class Rows:
    """All rows of one experiment."""

    all: tuple[Row, ...]

    @classmethod
    def of(cls, kept: Iterable[dict[str, object]]) -> Rows:
        names = Row.__dataclass_fields__
        return cls(tuple(Row(**{name: row[name] for name in names}) for row in kept))  # type: ignore[arg-type]

    def values(self, cell: str, arm: str, figure: str) -> dict[int, float]:
        """The figure by seed."""
        return {each.seed: each.value for each in self.all if (each.cell, each.arm, each.figure) == (cell, arm, figure)}

    def paired(self, cell: str, arm: str, over: str, figure: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """By seed, what the figure of `arm` is over that of `over`."""
        mine, its = self.values(cell, arm, figure), self.values(cell, over, figure)
        return np.array([mine[seed] / its[seed] for seed in mine if seed in its])

    def arms(self, cell: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each.arm for each in self.all if each.cell == cell))

    @property
    def cells(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each.cell for each in self.all))

    def figures(self, cell: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each.figure for each in self.all if each.cell == cell))


def kept(row: Row, experiment: str, version: int) -> dict[str, object]:
    """`row` as it is kept."""
    return asdict(row) | {"experiment": experiment, "version": version}
