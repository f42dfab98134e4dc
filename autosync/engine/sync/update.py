"""An update: a mean gradient on the device of the values it is for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from autosync.engine.state import AS_IT_IS, Correction, RowGradient

__all__ = ["Update"]


class Updatable(Protocol):
    """What holds values, on `device`."""

    device: str

    def apply(self, gradient: Any, correction: Correction) -> None:
        """Update them by a mean gradient."""


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
        import tensorflow as tf

        if isinstance(self.gradient, RowGradient):
            return self.gradient.values
        if not isinstance(self.gradient, tuple):
            return self.gradient
        with tf.device(self.held.device):
            return tf.concat(self.gradient, 0) if len(self.gradient) > 1 else self.gradient[0]

    def apply(self, correction: Correction = AS_IT_IS) -> None:
        self.held.apply(self.gradient, correction)
