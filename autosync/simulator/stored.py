"""Pooled inputs of more strategies than there is room for: in a file, of which only the rows asked for are read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias, final

import numpy as np
import numpy.typing as npt
import torch

from autosync.simulator.crew import Crew
from autosync.simulator.inputs import LEAST_SCALE, Inputs, Normalization

PIECE = 4096
"""Rows that are read at once."""

ELSEWHERE = -1
"""In place of the row of a strategy that another process of the crew has."""

VALUE_BYTES = 8


@final
@dataclass(frozen=True, eq=False)
class StoredInputs:
    """Inputs of n strategies: `rows` int64 (n,) says which row of `file` each is, a row being `width` float64."""

    file: Path
    width: int
    rows: npt.NDArray[np.int64]
    crew: Crew
    by: Normalization | None = None
    dtype: torch.dtype = torch.float64

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, places: Sequence[int]) -> StoredInputs:
        """The inputs at `places`, in that order; they stay in the file."""
        return replace(self, rows=self.rows[np.asarray(places, dtype=np.int64)])

    def own(self, places: Sequence[int]) -> tuple[Inputs, torch.Tensor]:
        """The inputs at those of `places` that are in this process, and where in `places` they stand."""
        rows = self.rows[np.asarray(places, dtype=np.int64)]
        here = np.flatnonzero(rows != ELSEWHERE)
        return self._read(rows[here]), torch.from_numpy(here)

    def pieces(self) -> Iterator[tuple[Inputs, torch.Tensor]]:
        """The inputs that are in this process, some at once, and their places."""
        here = np.flatnonzero(self.rows != ELSEWHERE)
        for begin in range(0, len(here), PIECE):
            places = here[begin : begin + PIECE]
            yield self._read(self.rows[places]), torch.from_numpy(places)

    def gathered(self) -> Inputs:
        """All inputs in memory, those of other processes too."""
        found = torch.zeros(len(self), self.width, dtype=self.dtype)
        for piece, places in self.pieces():
            found[places] = piece.pooled
        return Inputs(self.crew.summed(found))

    def normalization(self) -> Normalization:
        """As `Normalization.of` of all inputs, up to rounding."""
        count = len(self)
        mean = self._summed(lambda rows: rows) / count
        variance = self._summed(lambda rows: (rows - mean) ** 2) / count
        nothing = Inputs(torch.zeros(0, self.width, dtype=torch.float64)).normalization()
        return replace(nothing, pooled=torch.stack([mean, variance.sqrt().clamp(min=LEAST_SCALE)]))

    def normalized(self, normalization: Normalization) -> StoredInputs:
        return replace(self, by=normalization)

    def to(self, dtype: torch.dtype) -> StoredInputs:
        return replace(self, dtype=dtype)

    def _summed(self, of: object) -> torch.Tensor:
        assert callable(of)
        found = torch.zeros(self.width, dtype=torch.float64)
        for piece, _ in self.pieces():
            found += of(piece.pooled).sum(dim=0)
        return self.crew.summed(found)

    def _read(self, rows: npt.NDArray[np.int64]) -> Inputs:
        """The rows of the file, in one go where they follow each other."""
        size = self.width * VALUE_BYTES
        with self.file.open("rb") as file:
            if len(rows) and (np.diff(rows) == 1).all():
                content = os.pread(file.fileno(), len(rows) * size, int(rows[0]) * size)
            else:
                content = b"".join(os.pread(file.fileno(), size, row * size) for row in rows.tolist())
        pooled = torch.from_numpy(np.frombuffer(content, dtype=np.float64).reshape(len(rows), self.width).copy())
        inputs = Inputs(pooled)
        return (self.by(inputs) if self.by is not None else inputs).to(self.dtype)


AnyInputs: TypeAlias = Inputs | StoredInputs
