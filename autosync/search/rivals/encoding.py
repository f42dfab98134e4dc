"""Strategies as points with a fixed number of dimensions, the only form that a general tuner accepts."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, final

import numpy as np
import numpy.typing as npt

from autosync.spec import Strategy

Point: TypeAlias = tuple[int, ...]
"""The number of a choice for each dimension."""


@final
@dataclass(frozen=True)
class Dimension:
    """One decision."""

    name: str
    choices: int
    """The number of choices, which are numbered from 0."""
    ordered: bool
    """Whether near numbers are near decisions."""


class Encoding(Protocol):
    """A mapping between points and the strategies of one space."""

    @property
    def suffix(self) -> str:
        """The suffix of the names of searchers that use this encoding."""
        ...

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        """The dimensions with more than one choice."""
        ...

    def point(self, strategy: Strategy) -> Point:
        """Return the point that describes `strategy` best; the point may lie outside the space."""
        ...

    def strategy(self, point: Point) -> Strategy:
        """Return the strategy of the space that is nearest to `point`."""
        ...

    def candidates(self, leaders: Sequence[Strategy], rng: random.Random) -> list[Strategy]:
        """Return hundreds of strategies of the space worth a prediction, some of them near `leaders` (best first)."""
        ...


def draw_point(dimensions: Sequence[Dimension], rng: random.Random) -> Point:
    """Draw a point uniformly in each dimension."""
    return tuple(rng.randrange(dimension.choices) for dimension in dimensions)


def neighbour(dimensions: Sequence[Dimension], point: Point, rng: random.Random) -> Point:
    """Return `point` with another choice in one or two dimensions."""
    changed = list(point)
    for index in rng.sample(range(len(dimensions)), min(len(dimensions), rng.choice((1, 1, 2)))):
        changed[index] = rng.choice([choice for choice in range(dimensions[index].choices) if choice != point[index]])
    return tuple(changed)


def as_columns(dimensions: Sequence[Dimension], points: Sequence[Point]) -> npt.NDArray[np.float64]:
    """Return the points as float64 (n, columns): one column from 0 to 1 for an ordered dimension, else one for each
    choice.

    Two choices of an unordered dimension are a distance of 1 apart, as are the ends of an ordered dimension.
    """
    table = np.array(points, np.float64).reshape(len(points), len(dimensions))
    columns = []
    for index, dimension in enumerate(dimensions):
        column = table[:, index : index + 1]
        columns.append(
            column / (dimension.choices - 1)
            if dimension.ordered
            else (column == np.arange(dimension.choices)) / math.sqrt(2)
        )
    return np.concatenate(columns, axis=1) if columns else np.zeros((len(points), 0))
