"""Error feedback: the part of a gradient that a rank has not sent is added to its next gradient."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import final

import torch

from autosync.layout.shards import Slice


@final
class UnsentRest:
    """The unsent rest of a flat array of gradients on one rank (Karimireddy et al. 2019)."""

    def __init__(self, slices: Sequence[Slice], dtype: torch.dtype) -> None:
        """`slices` lie end to end in the array."""
        self._slices = tuple(slices)
        self._unsent = torch.zeros(sum(part.elements for part in slices), dtype=dtype)
        self._next = torch.empty_like(self._unsent)

    @property
    def memory(self) -> Mapping[str, torch.Tensor]:
        """The unsent rest of each slice, in the slice's shape."""
        return {memory_name(part, "unsent"): view for part, view in zip(self._slices, self._views(), strict=True)}

    def add(self, gradients: torch.Tensor) -> torch.Tensor:
        """The unsent rest plus flat `gradients`; the caller turns this array into the next unsent rest."""
        return torch.add(self._unsent, gradients, out=self._next)

    def keep(self) -> None:
        """Remember the next unsent rest."""
        self._unsent.copy_(self._next)

    def _views(self) -> Iterator[torch.Tensor]:
        parts = self._unsent.split([part.elements for part in self._slices])
        return (view.view(part.shape) for part, view in zip(self._slices, parts, strict=True))


def memory_name(part: Slice, kind: str) -> str:
    """The name of a slice's state of one kind between steps."""
    return f"{part.variable.name}/{part.index}/{kind}"


def is_finite(means: torch.Tensor) -> bool:
    """Whether a step counts. If the means are not finite, the user's loop leaves the step out, so exchanges remember
    nothing of it; all ranks decide alike, because they have the same means."""
    return bool(torch.isfinite(means).all())
