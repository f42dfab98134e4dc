"""Pooled inputs of more strategies than fit into memory: in a file, of which only the needed rows are read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias, final

import numpy as np
import numpy.typing as npt
import torch

from autosync.simulator.fit_workers import FitWorkers
from autosync.simulator.inputs import LEAST_SCALE, Inputs, Normalization

PIECE = 4096
"""Rows per read."""

ELSEWHERE = -1
"""The row number of a strategy whose inputs are in another process."""

VALUE_BYTES = 8


@final
@dataclass(frozen=True, eq=False)
class StoredInputs:
    """Inputs of n strategies in a file."""

    file: Path
    """Rows of `width` float64 values."""
    width: int
    rows: npt.NDArray[np.int64]
    """The row of each strategy in `file`, or `ELSEWHERE`; int64 (n,)."""
    workers: FitWorkers
    by: Normalization | None = None
    """The normalization to apply when reading; None for raw inputs."""
    dtype: torch.dtype = torch.float64
    """The type of the tensors read."""

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, places: Sequence[int]) -> StoredInputs:
        """Return the inputs at `places`, in that order; they stay in the file."""
        return replace(self, rows=self.rows[np.asarray(places, dtype=np.int64)])

    def local(self, places: Sequence[int]) -> tuple[Inputs, torch.Tensor]:
        """Return the inputs of this process among `places`, and their positions in `places`."""
        rows = self.rows[np.asarray(places, dtype=np.int64)]
        present = np.flatnonzero(rows != ELSEWHERE)
        return self._read(rows[present]), torch.from_numpy(present)

    def pieces(self) -> Iterator[tuple[Inputs, torch.Tensor]]:
        """Yield the inputs of this process piece by piece, with their places."""
        present = np.flatnonzero(self.rows != ELSEWHERE)
        for begin in range(0, len(present), PIECE):
            places = present[begin : begin + PIECE]
            yield self._read(self.rows[places]), torch.from_numpy(places)

    def in_memory(self) -> Inputs:
        """Return all inputs in memory, those of other processes included."""
        pooled = torch.zeros(len(self), self.width, dtype=self.dtype)
        for piece, places in self.pieces():
            pooled[places] = piece.pooled
        return Inputs(self.workers.all_reduce(pooled))

    def normalization(self) -> Normalization:
        """Return the same as `Normalization.of` of all inputs, up to rounding."""
        count = len(self)
        mean = self._sum_over_rows(lambda rows: rows) / count
        variance = self._sum_over_rows(lambda rows: (rows - mean) ** 2) / count
        nothing = Inputs(torch.zeros(0, self.width, dtype=torch.float64)).normalization()
        return replace(nothing, pooled=torch.stack([mean, variance.sqrt().clamp(min=LEAST_SCALE)]))

    def normalize(self, normalization: Normalization) -> StoredInputs:
        return replace(self, by=normalization)

    def to(self, dtype: torch.dtype) -> StoredInputs:
        return replace(self, dtype=dtype)

    def _sum_over_rows(self, of: object) -> torch.Tensor:
        assert callable(of)
        total = torch.zeros(self.width, dtype=torch.float64)
        for piece, _ in self.pieces():
            total += of(piece.pooled).sum(dim=0)
        return self.workers.all_reduce(total)

    def _read(self, rows: npt.NDArray[np.int64]) -> Inputs:
        """Read rows of the file, with a single read if they are contiguous."""
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
