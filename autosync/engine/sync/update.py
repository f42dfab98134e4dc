"""An update: a mean gradient on the device of the values it is for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from autosync.engine.state import AS_IT_IS, Block, Correction, RowGradient, Rows

__all__ = ["Update"]


@dataclass(frozen=True)
class Update:
    """`gradient` is flat for a `Block`, a `RowGradient` for `Rows`.

    Replicas that each hold the same values have an update each; only the first of these `counts`, so that what is
    summed over the updates that count is summed over the model's variables.
    """

    held: Block | Rows
    gradient: Any
    counts: bool = True

    @property
    def values(self) -> Any:
        """The gradient's numbers; rows it does not name have none."""
        return self.gradient.values if isinstance(self.gradient, RowGradient) else self.gradient

    def apply(self, correction: Correction = AS_IT_IS) -> None:
        self.held.apply(self.gradient, correction)
