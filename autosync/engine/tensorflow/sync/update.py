"""An update: a mean gradient on the device of the values that it updates."""

from dataclasses import dataclass
from typing import Any, Protocol

from autosync.engine.tensorflow.arrays import end_to_end
from autosync.engine.tensorflow.state import AS_IT_IS, Correction, RowGradient


class Updatable(Protocol):
    """Values on `device` that a mean gradient can update."""

    device: str

    def apply(self, gradient: Any, correction: Correction) -> None:
        """Update the values by a mean gradient."""


@dataclass(frozen=True)
class Update:
    """A mean gradient for the values `held`.

    `gradient` is flat for a `ValueBlock`, a tuple of flat pieces for a server, and a `RowGradient` for a `RowTable`.
    If all replicas hold the same values, each replica has an update, but only the first one `counts`. A sum over the
    updates that count is then a sum over the model's variables.
    """

    held: Updatable
    gradient: Any
    counts: bool = True

    @property
    def values(self) -> Any:
        """The gradient's numbers; a `RowGradient` has none for rows that it does not name."""
        if isinstance(self.gradient, RowGradient):
            return self.gradient.values
        return end_to_end(self.gradient, self.held.device) if isinstance(self.gradient, tuple) else self.gradient

    def apply(self, correction: Correction = AS_IT_IS) -> None:
        self.held.apply(self.gradient, correction)
