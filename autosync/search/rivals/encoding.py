"""Strategies as points of a fixed number of dimensions, which is all that a general tuner understands."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, final

import numpy as np
import numpy.typing as npt

from autosync.spec import Strategy

Point: TypeAlias = tuple[int, ...]
"""A choice's number for each dimension."""


@final
@dataclass(frozen=True)
class Dimension:
    """One decision with `choices`, numbered from 0. If it is `ordered`, near numbers are near decisions."""

    name: str
    choices: int
    ordered: bool


class Encoding(Protocol):
    """Points that stand for strategies of one space."""

    @property
    def suffix(self) -> str:
        """The ending of the names of searchers that use this encoding."""
        ...

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        """The dimensions with more than one choice."""
        ...

    def point(self, strategy: Strategy) -> Point:
        """The point that describes `strategy` best, which may lie outside the space."""
        ...

    def strategy(self, point: Point) -> Strategy:
        """The strategy of the space that is nearest to what `point` asks for."""
        ...

    def candidates(self, leaders: Sequence[Strategy], rng: random.Random) -> list[Strategy]:
        """Hundreds of strategies of the space worth a look, some of them near `leaders` (best first)."""
        ...


def drawn_point(dimensions: Sequence[Dimension], rng: random.Random) -> Point:
    """A point drawn uniformly in each dimension."""
    return tuple(rng.randrange(each.choices) for each in dimensions)


def neighbour(dimensions: Sequence[Dimension], point: Point, rng: random.Random) -> Point:
    """`point` with another choice in one or two dimensions."""
    changed = list(point)
    for index in rng.sample(range(len(dimensions)), min(len(dimensions), rng.choice((1, 1, 2)))):
        changed[index] = rng.choice([each for each in range(dimensions[index].choices) if each != point[index]])
    return tuple(changed)


def as_columns(dimensions: Sequence[Dimension], points: Sequence[Point]) -> npt.NDArray[np.float64]:
    """The points as float64 (n, columns): one column from 0 to 1 for an ordered dimension, else one for each choice.

    Two choices of an unordered dimension are a distance of 1 apart, as the ends of an ordered one are.
    """
    table = np.array(points, np.float64).reshape(len(points), len(dimensions))
    columns = []
    for index, each in enumerate(dimensions):
        column = table[:, index : index + 1]
        columns.append(
            column / (each.choices - 1) if each.ordered else (column == np.arange(each.choices)) / math.sqrt(2)
        )
    return np.concatenate(columns, axis=1) if columns else np.zeros((len(points), 0))
