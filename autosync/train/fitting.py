"""The loop of `Trainer.fit`: passes over the data, validation, and callbacks in Keras' order."""

from __future__ import annotations

import itertools
import statistics
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from autosync.engine.core.steps_a_call import steps_a_call
from autosync.engine.tensorflow.training.callbacks import Hooks
from autosync.engine.tensorflow.training.validating import validate
from autosync.errors import TrainingError
from autosync.train.asked import PassPlan, Validation
from autosync.train.data import RayBatches, Sharded, Synthetic
from autosync.train.mirror import Mirror
from autosync.train.running import Measures, Running

TIMED_ALONE = 3
"""The number of single steps whose times decide the number of steps of later calls, if steps overlap."""


def first_batch(dataset: Any, replicas: int) -> tuple[Any, Any]:
    """Return a batch to capture the model by (None for synthetic data), and the data with that batch still included.

    Data in another process is asked for one batch. An iterable in this process is started only once, because starting
    it may draw an order.
    """
    if isinstance(dataset, Synthetic):
        return None, dataset
    whole: Any
    if isinstance(dataset, Sharded) or (isinstance(dataset, RayBatches) and dataset.sharded):
        batch, whole = dataset.first(replicas), dataset
    elif isinstance(dataset, Iterable):
        rest = iter(dataset)
        batch = next(rest, None)
        whole = _StartedData(dataset, itertools.chain([batch], rest))
    else:
        raise TrainingError(
            f"Data must give batches (inputs, targets) when iterated, but {type(dataset).__name__} cannot be."
        )
    if batch is None:
        raise TrainingError("Data must have at least one batch, but has none.")
    return batch, whole


@dataclass
class _StartedData:
    """Data whose first pass has already started."""

    dataset: Iterable[Any]
    rest: Iterator[Any] | None

    def __iter__(self) -> Iterator[Any]:
        rest, self.rest = self.rest, None
        return iter(self.dataset) if rest is None else rest


@dataclass
class Fitting:
    """One call of `fit` on `dataset`; events come in the order of `keras.Model.fit`."""

    running: Running
    mirror: Mirror
    dataset: Any
    passes: PassPlan
    """The passes to train."""
    hooks: Hooks
    """The callbacks."""
    measures: Measures
    """The metrics of the training data."""
    validation: Validation | None = None
    """The validation at the end of passes; None without validation."""
    overlaps: bool = False
    """Whether steps overlap with the next forward pass."""
    _most_a_call: int = field(default=0, init=False)
    _steps: Iterator[Callable[[], float]] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._history = self.running.progress.history
        self._begin = len(self._history)

    def run(self) -> None:
        """Train. The Keras model is current at the hooks of callbacks that read it, and at the end."""
        model, logs = self.mirror.model, {}
        self.mirror.take_over()
        model.stop_training = False
        self.hooks.call("on_train_begin")
        first = getattr(model, "_initial_epoch", None) or self.passes.initial_epoch  # `BackupAndRestore` sets it
        for epoch in self._epochs(first):
            before = len(self._history)
            self.measures.begin()
            self.hooks.call("on_epoch_begin", epoch)
            self._pass()
            done = self._history.since(before)
            if not len(done):
                warnings.warn(self._too_little(), stacklevel=4)
                break
            logs = {"loss": done.mean_loss, **self.measures.so_far(), **self._validate(epoch)}
            self._history.end_pass(logs, epoch)
            self.hooks.call("on_epoch_end", epoch, dict(logs))
            if model.stop_training or self._is_used_up():
                break
        self.mirror.show()
        self.hooks.call("on_train_end", dict(logs))

    def _epochs(self, first: int) -> Iterable[int]:
        last = self.passes.last
        if self.passes.steps == 0:
            return ()
        return itertools.count(first) if last is None else range(first, last)

    def _pass(self) -> None:
        """Train one pass over the data, or the part of it within the step limits."""
        before = len(self._history)
        for number, train in enumerate(self._steps_of_a_pass()):
            self.hooks.call("on_train_batch_begin", number)
            loss = train()
            logs = {"loss": loss}
            if self.hooks.sees("on_train_batch_end"):
                logs = {"loss": self._history.since(before).mean_loss, **self.measures.so_far()}
            self.hooks.call("on_train_batch_end", number, logs)
            if self.mirror.model.stop_training or self._is_used_up():
                return

    def _steps_of_a_pass(self) -> Iterator[Callable[[], float]]:
        """Yield one function for each step of a pass."""
        wanted = self.passes.steps_per_epoch
        if wanted is None:
            yield from self._steps_of_data()
            return
        taken = 0
        is_new = self._steps is None
        self._steps = self._steps or self._steps_of_data()
        while taken < wanted:
            train = next(self._steps, None)
            if train is not None:
                taken += 1
                yield train
            elif taken or is_new:
                self._steps = None
                warnings.warn(self._short_pass(taken, wanted), stacklevel=5)
                return
            else:  # the previous pass ended exactly with the data
                is_new, self._steps = True, self._steps_of_data()

    def _steps_of_data(self) -> Iterator[Callable[[], float]]:
        """Yield one function for each step of all of the data."""
        running, dataset = self.running, self.dataset
        if isinstance(dataset, Synthetic):
            yield from itertools.repeat(lambda: running.synthetic_steps(self._steps_of_call()))
        elif isinstance(dataset, Sharded) or (isinstance(dataset, RayBatches) and dataset.sharded):
            running.open_feed(dataset)
            while examples := running.read():
                yield lambda count=examples: running.step_on_read(count)  # type: ignore[misc]
        else:
            for batch in dataset:
                yield lambda data=batch: running.step(data)  # type: ignore[misc]

    def _steps_of_call(self) -> int:
        """Return the number of steps of the next call: several if steps overlap, and all callbacks act at its end."""
        wanted, done = self.passes.steps, len(self._history) - self._begin
        if not self.overlaps or wanted is None or self.passes.steps_per_epoch or done < TIMED_ALONE:
            return 1
        borders = self.hooks.borders
        if borders is None:
            return 1
        if not self._most_a_call:
            self._most_a_call = steps_a_call(statistics.median(self._history.step_seconds[self._begin :]))
        left = min([wanted - done, *(every - self.running.progress.steps % every for every in borders)])
        count = self._most_a_call
        while count > left:
            count //= 2
        return count

    def _validate(self, epoch: int) -> dict[str, float]:
        """Return loss and metrics on the validation data, with names that begin with `val_`; empty if not due."""
        if self.validation is None or not self.validation.is_due(epoch):
            return {}
        self.mirror.show()
        data, size, steps = self.validation.data, self.validation.batch_size, self.validation.steps
        logs = validate(self.mirror.keras, data, size, steps, self.hooks.of_evaluation)
        self.mirror.take_over()
        return logs

    def _is_used_up(self) -> bool:
        return self.passes.steps is not None and len(self._history) - self._begin >= self.passes.steps

    def _too_little(self) -> str:
        done = len(self._history) - self._begin
        asked = f"{self.passes.last} passes" if self.passes.steps is None else f"{self.passes.steps} steps"
        return f"fit ended after {done} of {asked}: the data is used up and gives no batch when started again."

    def _short_pass(self, taken: int, wanted: int) -> str:
        return f"A pass ended after {taken} of {wanted} steps (steps_per_epoch), because the data was used up."
