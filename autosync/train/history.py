"""What training has done so far: the loss, examples and seconds of every step, and the metrics of every pass."""

from __future__ import annotations

from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Pass:
    """The end of a pass over the data, after `steps` steps of the history: mean loss and metrics, by name.

    `epoch` is the pass's number, counted from 0.
    """

    steps: int
    logs: dict[str, float]
    epoch: int = 0


@dataclass
class History:
    """One entry a step. `loss` is the mean over the step's examples before its update.

    `step_seconds` is wall time from handing the batch over to knowing the loss; a step that builds or rebuilds the
    function takes longer. `passes` are those that `fit` has ended.
    """

    loss: list[float] = field(default_factory=list)
    examples: list[int] = field(default_factory=list)
    step_seconds: list[float] = field(default_factory=list)
    passes: list[Pass] = field(default_factory=list)

    def add(self, loss: float, examples: int, seconds: float) -> None:
        self.loss.append(loss)
        self.examples.append(examples)
        self.step_seconds.append(seconds)

    def end_pass(self, logs: dict[str, float], epoch: int = 0) -> None:
        """Note that a pass has ended with the last step added."""
        self.passes.append(Pass(len(self), logs, epoch))

    def since(self, step: int) -> History:
        """The part after the first `step` steps."""
        passes = [replace(ended, steps=ended.steps - step) for ended in self.passes if ended.steps > step]
        return History(self.loss[step:], self.examples[step:], self.step_seconds[step:], passes)

    @property
    def mean_loss(self) -> float:
        """The mean loss over all examples of these steps."""
        return sum(loss * count for loss, count in zip(self.loss, self.examples, strict=True)) / sum(self.examples)

    @property
    def last_pass(self) -> dict[str, float]:
        """Mean loss and metrics of the pass that ended last; empty before one has."""
        return self.passes[-1].logs if self.passes else {}

    @property
    def epoch(self) -> list[int]:
        """The numbers of the passes that have ended, as in `keras.callbacks.History`."""
        return [ended.epoch for ended in self.passes]

    @property
    def history(self) -> dict[str, list[float]]:
        """Loss and metrics of the passes that have ended, by name, as in `keras.callbacks.History`."""
        names = dict.fromkeys(name for ended in self.passes for name in ended.logs)
        return {name: [ended.logs[name] for ended in self.passes if name in ended.logs] for name in names}

    @property
    def examples_per_second(self) -> float:
        """The rate over all steps kept here but the first, which may have built the function; 0 for fewer than two."""
        seconds = sum(self.step_seconds[1:])
        return sum(self.examples[1:]) / seconds if seconds else 0.0

    def __len__(self) -> int:
        return len(self.loss)
