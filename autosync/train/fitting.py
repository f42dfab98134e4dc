"""The loop of `Trainer.fit`: passes over the data, and callbacks at their moments."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from autosync.errors import TrainingError
from autosync.train.data import RayBatches, Sharded, Synthetic
from autosync.train.running import Measures, Running

if TYPE_CHECKING:
    from autosync.engine.training.keras_state import KerasState

OLDER_NAMES = {"on_train_batch_begin": "on_batch_begin", "on_train_batch_end": "on_batch_end"}


@final
class Hooks:
    """Callbacks are `keras.callbacks.Callback`s, or any objects with some of their methods."""

    def __init__(self, callbacks: Sequence[Any]) -> None:
        """Take `callbacks`. Raises `TrainingError` for an object without a method that could ever be called."""
        for each in callbacks:
            if not any(name.startswith("on_") for name in dir(each)):
                raise TrainingError(
                    f"A callback must have methods such as on_train_batch_end(batch, logs), but {each!r} has none."
                )
        self._callbacks = tuple(callbacks)

    def __bool__(self) -> bool:
        return bool(self._callbacks)

    def introduce(self, trainer: Any, steps: int | None) -> None:
        """Tell callbacks that want to know of the trainer, the model and the number of steps."""
        for each in self._callbacks:
            for setter, value in (
                ("set_trainer", trainer),
                ("set_model", trainer.model),
                ("set_params", {"verbose": 0, "epochs": 1, "steps": steps}),
            ):
                if hasattr(each, setter):
                    getattr(each, setter)(value)

    def call(self, moment: str, *arguments: Any) -> None:
        """Call the method named `moment` of all callbacks that have it, in order."""
        for each in self._callbacks:
            method = getattr(each, moment, None) or getattr(each, OLDER_NAMES.get(moment, moment), None)
            if method is not None:
                method(*arguments)


def first_batch(dataset: Any, replicas: int) -> tuple[Any, Any]:
    """A batch to capture the model by (None for synthetic data), and the data with that batch still to come.

    Data in another process is asked for one batch; what is iterated here is begun once only, as it may draw an order.
    """
    if isinstance(dataset, Synthetic):
        return None, dataset
    whole: Any
    if isinstance(dataset, Sharded) or (isinstance(dataset, RayBatches) and dataset.sharded):
        batch, whole = dataset.first(replicas), dataset
    elif isinstance(dataset, Iterable):
        rest = iter(dataset)
        batch = next(rest, None)
        whole = _Begun(dataset, itertools.chain([batch], rest))
    else:
        raise TrainingError(
            f"Data must give batches (inputs, targets) when iterated, but {type(dataset).__name__} cannot be."
        )
    if batch is None:
        raise TrainingError("Data must have at least one batch, but has none.")
    return batch, whole


@dataclass
class _Begun:
    """Data whose first pass is under way."""

    dataset: Iterable[Any]
    rest: Iterator[Any] | None

    def __iter__(self) -> Iterator[Any]:
        rest, self.rest = self.rest, None
        return iter(self.dataset) if rest is None else rest


@dataclass
class Fitting:
    """One call of `fit`: `steps` steps, or one pass over `dataset` when that is None."""

    running: Running
    keras: KerasState
    dataset: Any
    steps: int | None
    hooks: Hooks
    measures: Measures

    def __post_init__(self) -> None:
        self._history = self.running.progress.history
        self._begin = len(self._history)
        self._rate = self.keras.learning_rate

    def run(self) -> None:
        """Train; the Keras model is current at the ends of passes, where callbacks look at it, and at the end."""
        self.keras.model.stop_training = False
        self.hooks.call("on_train_begin", {})
        for epoch in itertools.count():
            if self._is_done(epoch):
                break
            before = len(self._history)
            self.hooks.call("on_epoch_begin", epoch, {})
            self.measures.begin()
            self._pass()
            done = self._history.since(before)
            if not len(done):
                warnings.warn(self._too_little(), stacklevel=4)
                break
            logs = {"loss": done.mean_loss, **self.measures.so_far()}
            self._history.end_pass(logs)
            if self.hooks:
                self.keras.write(self.running.state())
                self.hooks.call("on_epoch_end", epoch, logs)
        self.keras.write(self.running.state())
        whole = self._history.since(self._begin)
        self.hooks.call("on_train_end", {**whole.last_pass, "loss": whole.mean_loss} if len(whole) else {})

    def _pass(self) -> None:
        """One pass over the data, or what `steps` leave of it."""
        for train in self._steps_of_a_pass():
            self.hooks.call("on_train_batch_begin", self.running.progress.steps, {})
            self._heed_learning_rate()
            loss = train()
            self.hooks.call("on_train_batch_end", self.running.progress.steps - 1, {"loss": loss})
            if self._is_done(0):
                return

    def _steps_of_a_pass(self) -> Iterator[Callable[[], float]]:
        """What to call for each step."""
        running, dataset = self.running, self.dataset
        if isinstance(dataset, Synthetic):
            yield from itertools.repeat(running.synthetic_step)
        elif isinstance(dataset, Sharded) or (isinstance(dataset, RayBatches) and dataset.sharded):
            running.open_feed(dataset)
            while examples := running.read():
                yield lambda count=examples: running.step_on_read(count)  # type: ignore[misc]
        else:
            for batch in dataset:
                yield lambda given=batch: running.step(given)  # type: ignore[misc]

    def _is_done(self, epoch: int) -> bool:
        done = epoch > 0 if self.steps is None else len(self._history) - self._begin >= self.steps
        return done or bool(self.keras.model.stop_training)

    def _heed_learning_rate(self) -> None:
        """Tell the workers of a learning rate that a callback has set."""
        rate = self.keras.learning_rate
        if rate is not None and rate != self._rate:
            self.running.load(self.keras.with_learning_rate(self.running.state()))
            self._rate = rate

    def _too_little(self) -> str:
        done = len(self._history) - self._begin
        return f"fit ended after {done} of {self.steps} steps: the data is used up and gives no batch when begun anew."
