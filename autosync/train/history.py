"""The history of training: loss, examples and seconds of every step, and the metrics of every pass."""

from __future__ import annotations

from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Pass:
    """A finished pass over the data."""

    steps: int
    """The number of steps of the history up to the end of the pass."""
    logs: dict[str, float]
    """Mean loss and metrics, by name."""
    epoch: int = 0
    """The number of the pass, counted from 0."""


@dataclass
class History:
    """The history of training, with one entry a step and one a pass."""

    loss: list[float] = field(default_factory=list)
    """The mean loss over the step's examples, before the update."""
    examples: list[int] = field(default_factory=list)
    """Examples of the step."""
    step_seconds: list[float] = field(default_factory=list)
    """Wall time from submitting the batch to receiving the loss; a step that traces the function takes longer."""
    passes: list[Pass] = field(default_factory=list)
    """The passes that `fit` has finished."""

    def add(self, loss: float, examples: int, seconds: float) -> None:
        self.loss.append(loss)
        self.examples.append(examples)
        self.step_seconds.append(seconds)

    def end_pass(self, logs: dict[str, float], epoch: int = 0) -> None:
        """Note that a pass ended with the last step added."""
        self.passes.append(Pass(len(self), logs, epoch))

    def since(self, step: int) -> History:
        """Return the history after the first `step` steps."""
        passes = [replace(ended, steps=ended.steps - step) for ended in self.passes if ended.steps > step]
        return History(self.loss[step:], self.examples[step:], self.step_seconds[step:], passes)

    @property
    def mean_loss(self) -> float:
        """The mean loss over all examples of these steps."""
        return sum(loss * count for loss, count in zip(self.loss, self.examples, strict=True)) / sum(self.examples)

    @property
    def last_pass(self) -> dict[str, float]:
        """Mean loss and metrics of the last finished pass; empty before the first."""
        return self.passes[-1].logs if self.passes else {}

    @property
    def epoch(self) -> list[int]:
        """The numbers of the finished passes, as in `keras.callbacks.History`."""
        return [ended.epoch for ended in self.passes]

    @property
    def history(self) -> dict[str, list[float]]:
        """Loss and metrics of the finished passes, by name, as in `keras.callbacks.History`."""
        names = dict.fromkeys(name for ended in self.passes for name in ended.logs)
        return {name: [ended.logs[name] for ended in self.passes if name in ended.logs] for name in names}

    @property
    def examples_per_second(self) -> float:
        """The rate over all steps except the first, which may trace the function; 0 for fewer than two steps."""
        seconds = sum(self.step_seconds[1:])
        return sum(self.examples[1:]) / seconds if seconds else 0.0

    def __len__(self) -> int:
        return len(self.loss)
