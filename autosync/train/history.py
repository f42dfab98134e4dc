"""What training has done so far: the loss, examples and seconds of every step."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["History"]


@dataclass
class History:
    """One entry a step. `loss` is the mean over the step's examples before its update.

    `step_seconds` is wall time from handing the batch over to knowing the loss; a step that builds or rebuilds the
    function takes longer.
    """

    loss: list[float] = field(default_factory=list)
    examples: list[int] = field(default_factory=list)
    step_seconds: list[float] = field(default_factory=list)

    def add(self, loss: float, examples: int, seconds: float) -> None:
        self.loss.append(loss)
        self.examples.append(examples)
        self.step_seconds.append(seconds)

    def since(self, step: int) -> History:
        """The part after the first `step` steps."""
        return History(self.loss[step:], self.examples[step:], self.step_seconds[step:])

    @property
    def mean_loss(self) -> float:
        """Over all examples of these steps."""
        return sum(loss * count for loss, count in zip(self.loss, self.examples, strict=True)) / sum(self.examples)

    @property
    def examples_per_second(self) -> float:
        """Over all steps kept here but the first, which may have built the function; 0 for fewer than two."""
        seconds = sum(self.step_seconds[1:])
        return sum(self.examples[1:]) / seconds if seconds else 0.0

    def __len__(self) -> int:
        return len(self.loss)
