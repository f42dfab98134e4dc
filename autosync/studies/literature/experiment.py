"""What every experiment is: pieces of work that make rows, and claims about them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from matplotlib.figure import Figure

from autosync.stats.estimate import Estimate, Floats, estimate_of, resampled
from autosync.studies.literature.rows import Row, Rows


@dataclass(frozen=True)
class Work:
    """One piece of work, kept under its `key`; done again it makes the same rows, but for measured times."""

    key: str
    make: Callable[[], Sequence[Row]]


@dataclass(frozen=True)
class Claim:
    """What `says` something, what was `found`, and between which figures it was to be; the `bound` is what is possible.

    It holds where the value is within; by how much that is sure, the interval says.
    """

    says: str
    found: Estimate
    least: float = -math.inf
    most: float = math.inf
    bound: float | None = None

    @property
    def holds(self) -> bool:
        return self.least <= self.found.value <= self.most


@dataclass(frozen=True)
class Experiment:
    """An experiment by `name`; `version` is raised whenever what it makes may be another than before."""

    name: str
    title: str
    version: int
    works: Callable[[int], Iterator[Work]]
    claims: Callable[[Rows], Iterator[Claim]]
    shown: str
    """The figure that the picture shows."""
    drawn: Callable[[Rows], Figure] | None = None
    """What draws a picture of another kind."""


MOST_TRAINED = 5
"""The most seeds of experiments that train."""


def paired(cells: Iterable[str], seeds: int, rows: Callable[[str, int], Sequence[Row]]) -> Iterator[Work]:
    """A piece of work for each cell and seed."""
    for cell in cells:
        for seed in range(seeds):
            yield Work(f"{cell}-{seed}", partial(rows, cell, seed))


def mean_ratio(values: Floats) -> Estimate:
    """The geometric mean of ratios, one a seed, with its interval over resampled seeds."""
    if not len(values):
        return Estimate(math.nan, -math.inf, math.inf)
    if not np.isfinite(values).all() or not (values > 0).all():
        return Estimate(float(np.median(values)), float(values.min()), float(values.max()))
    return estimate_of(np.exp(resampled([np.log(values)], np.mean)[:, 0]))


def exactly(value: float) -> Estimate:
    """A value that nothing was drawn for."""
    return Estimate(value, value, value)
