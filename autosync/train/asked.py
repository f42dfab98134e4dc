"""Checks the arguments of `Trainer.fit`: those of `keras.Model.fit`, and `steps`."""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autosync.errors import TrainingError

ELSEWHERE = {
    "x": "give the data as the first argument",
    "max_queue_size": "set it on the PyDataset",
    "workers": "set it on the PyDataset, or read with Sharded",
    "use_multiprocessing": "set it on the PyDataset, or read with Sharded",
}
"""Arguments of current or earlier Keras versions that `fit` does not take, with the remedy."""


@dataclass(frozen=True)
class PassPlan:
    """The passes (epochs) of one call of `fit`."""

    epochs: int | None = None
    """The number of the last pass, counted from 1; None for as many passes as `steps` need."""
    steps: int | None = None
    """Steps in all; None for whole passes."""
    steps_per_epoch: int | None = None
    """Steps of a pass; None for all of the data. The next pass continues where the previous one stopped in the data."""
    initial_epoch: int = 0
    """Passes that were done before."""

    def __post_init__(self) -> None:
        """Raise `TrainingError` for invalid or contradictory numbers."""
        for name, least in (("epochs", 0), ("steps", 0), ("steps_per_epoch", 1), ("initial_epoch", 0)):
            value = getattr(self, name)
            if value is not None and (not _is_count(value) or value < least):
                raise TrainingError(f"{name} must be a whole number of {least} or more, not {value!r}.")
        if self.epochs is not None and self.steps is not None:
            raise TrainingError(
                f"fit takes either steps, which counts all steps, or epochs, but was given steps={self.steps} and "
                f"epochs={self.epochs}; leave one out."
            )

    @property
    def last(self) -> int | None:
        """The number of the last pass, counted from 1; None if steps decide."""
        return 1 if self.epochs is None and self.steps is None else self.epochs


@dataclass(frozen=True)
class Validation:
    """The data to validate on at the end of a pass, and the options for reading the data, as in `keras.Model.fit`."""

    data: Any
    batch_size: int | None = None
    steps: int | None = None
    freq: int | Sequence[int] = 1

    def __post_init__(self) -> None:
        """Raise `TrainingError` for an invalid frequency."""
        if not (_is_count(self.freq) and self.freq >= 1) and not _is_list_of_counts(self.freq):  # type: ignore[operator]
            raise TrainingError(
                f"validation_freq must be a whole number of passes, at least 1, or a list of passes, not {self.freq!r}."
            )

    def is_due(self, epoch: int) -> bool:
        """True if the pass `epoch`, counted from 0, ends with validation."""
        return epoch + 1 in self.freq if isinstance(self.freq, Sequence) else (epoch + 1) % self.freq == 0


def check_names(unknown: Mapping[str, Any]) -> None:
    """Raise `TrainingError` for unknown arguments of `fit`."""
    for name in unknown:
        remedy = ELSEWHERE.get(name, "see docs/own-model.md for the arguments that it takes")
        raise TrainingError(f"fit takes no argument {name!r}; {remedy}.")


def as_steps(steps: Any, y: Any) -> tuple[int | None, Any]:
    """Return (steps, targets); targets may take the position of steps, as in `model.fit(x, y)`."""
    if steps is None or _is_count(steps):
        return steps, y
    if y is not None:
        raise TrainingError(f"steps must be a whole number, not {type(steps).__name__}.")
    return None, steps


def _is_count(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _is_list_of_counts(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str) and all(_is_count(entry) for entry in value)
