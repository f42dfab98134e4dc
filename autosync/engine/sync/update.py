"""An update: a mean gradient on the device of the values it is for."""

from dataclasses import dataclass
from typing import Any, Protocol

from autosync.engine.arrays import end_to_end
from autosync.engine.state import AS_IT_IS, Correction, RowGradient


class Updatable(Protocol):
    """A holder of values on `device`."""

    device: str

    def apply(self, gradient: Any, correction: Correction) -> None:
        """Update the values by a mean gradient."""


@dataclass(frozen=True)
class Update:
    """`gradient` is flat for a `Block`, a tuple of flat pieces for a server, and a `RowGradient` for `Rows`.

    Replicas that each hold the same values have an update each; only the first of these `counts`, so that what is
    summed over the updates that count is summed over the model's variables.
    """

    held: Updatable
    gradient: Any
    counts: bool = True

    @property
    def values(self) -> Any:
        """The gradient's numbers; rows it does not name have none."""
        if isinstance(self.gradient, RowGradient):
            return self.gradient.values
        return end_to_end(self.gradient, self.held.device) if isinstance(self.gradient, tuple) else self.gradient

    def apply(self, correction: Correction = AS_IT_IS) -> None:
        self.held.apply(self.gradient, correction)
