"""The parts of an experiment: work items that make rows, and claims about the rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from matplotlib.figure import Figure

from autosync.numeric import FloatArray
from autosync.stats.estimate import Estimate, estimate_of, resample
from studies.literature.rows import FigureRow, FigureRows


@dataclass(frozen=True)
class WorkItem:
    """One work item, whose rows are kept under `key`. A repetition makes the same rows, except for measured times."""

    key: str
    make: Callable[[], Sequence[FigureRow]]


@dataclass(frozen=True)
class Claim:
    """A claim about an experiment's result, with the expected range."""

    says: str
    """The claim in words."""
    measured: Estimate
    least: float = -math.inf
    """The lower end of the expected range."""
    most: float = math.inf
    """The upper end of the expected range."""
    bound: float | None = None
    """The best possible value; None if unknown."""

    @property
    def holds(self) -> bool:
        """Whether the measured value is within the expected range, without regard to its interval."""
        return self.least <= self.measured.value <= self.most


@dataclass(frozen=True)
class Experiment:
    """An experiment. Raise `version` whenever the rows may differ from before."""

    name: str
    title: str
    version: int
    works: Callable[[int], Iterator[WorkItem]]
    claims: Callable[[FigureRows], Iterator[Claim]]
    shown: str
    """The figure in the picture."""
    draw: Callable[[FigureRows], Figure] | None = None
    """Draws a picture of another kind; None for the usual picture."""


MOST_TRAINED = 5
"""The most seeds of experiments that train."""


def work_per_seed(
    cells: Iterable[str], seeds: int, rows: Callable[[str, int], Sequence[FigureRow]]
) -> Iterator[WorkItem]:
    """Yield a work item for each cell and seed."""
    for cell in cells:
        for seed in range(seeds):
            yield WorkItem(f"{cell}-{seed}", partial(rows, cell, seed))


def mean_ratio(values: FloatArray) -> Estimate:
    """Return the geometric mean of ratios, one per seed, with its interval over resampled seeds."""
    if not len(values):
        return Estimate(math.nan, -math.inf, math.inf)
    if not np.isfinite(values).all() or not (values > 0).all():
        return Estimate(float(np.median(values)), float(values.min()), float(values.max()))
    return estimate_of(np.exp(resample([np.log(values)], np.mean)[:, 0]))


def exactly(value: float) -> Estimate:
    """Return the estimate of a value that has no randomness."""
    return Estimate(value, value, value)
