"""Training that is under way: steps on a runner, counted, timed and measured, and their failure in one sentence."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy.typing as npt

from autosync.engine.training.training import Runner
from autosync.errors import AutosyncError, TrainingError
from autosync.train.data import BatchForm, FlatReader, RayBatches, Sharded, shares
from autosync.train.history import History
from trials.signals import ctrl_c_waits
from trials.trial import reason_of

if TYPE_CHECKING:
    from autosync.engine.capture.metrics import TaskMetrics
    from autosync.engine.step.step_state import StepState


@dataclass
class TrainingProgress:
    """How far training has come. `steps` counts those before a restored checkpoint too, `history` does not."""

    steps: int = 0
    history: History = field(default_factory=History)
    last_checkpoint: Path | None = None

    def way_on(self) -> str:
        """What is left when training has failed, in a sentence."""
        if self.last_checkpoint is None:
            return "No checkpoint was saved."
        return f"Go on from the checkpoint {str(self.last_checkpoint)!r}."


@dataclass(frozen=True)
class BatchSizes:
    """How many replicas there are, and how many examples each draws of its own."""

    replicas: int
    own: int


@final
class Running:
    """Steps of one trainer. After a failure every call repeats it: what the workers hold then is unknown."""

    def __init__(self, runner: Runner, form: BatchForm | None, sizes: BatchSizes, progress: TrainingProgress) -> None:
        """`form` is None for a model that trains on its own batches only."""
        self.runner = runner
        self.form = form
        self.replicas = sizes.replicas
        self.progress = progress
        self._own_examples = sizes.own * sizes.replicas
        self._failure: str | None = None
        self._closed = False

    def step(self, batch: Any) -> float:
        """One step on `batch`, dealt out; the mean loss over its examples before the step. Raises `TrainingError`."""
        form = self._batch_form()
        arrays = form.flat(batch)
        dealt = shares(len(arrays[0]), self.replicas)
        counted = [share.counted for share in dealt]
        if form.examples is not None and set(counted) != {form.examples}:
            raise TrainingError(
                f"The model's inputs fix the batch size to {form.examples} a replica, so {self.replicas} replicas take "
                f"batches of {form.examples * self.replicas} examples, not {len(arrays[0])}; leave the batch size of "
                "the inputs open."
            )
        batches = [[each[share.begin : share.end] for each in arrays] for share in dealt]
        return self._timed(lambda: self.runner.on(batches, counted), len(arrays[0]))

    def synthetic_step(self) -> float:
        """One step on batches that the model draws by itself."""
        return self._timed(self.runner.own, self._own_examples)

    def open_feed(self, dataset: Sharded | RayBatches) -> None:
        """Begin a pass over data that the workers read."""
        form = self._batch_form()
        read = FlatReader(dataset.opened(self.replicas), form)
        specs = list(zip(form.shapes, form.dtypes, strict=True))
        self._answer(lambda: self.runner.open_feed(read, specs))

    def read(self) -> int:
        """Let every worker read; the number of examples, 0 at the end of the pass."""
        return self._answer(self.runner.read)

    def step_on_read(self, examples: int) -> float:
        """One step on the `examples` that were read last."""
        return self._timed(self.runner.on_read, examples)

    def take_metrics(self) -> tuple[npt.NDArray[Any], ...]:
        """The states of the model's metrics, added up over replicas, which then begin anew."""
        return self._answer(self.runner.take_metrics)

    def state(self) -> StepState:
        return self._answer(self.runner.state)

    def load(self, state: StepState) -> None:
        self._answer(lambda: self.runner.load(state))

    def pids(self) -> dict[str, int]:
        return self._answer(self.runner.pids)

    def close(self) -> None:
        """End the runner's processes; every later call says so. To call it twice is fine."""
        if not self._closed:
            self._closed = True
            self._failure = "The trainer is closed; make a new one."
            with suppress(Exception):  # processes that are gone already
                self.runner.close()

    def _batch_form(self) -> BatchForm:
        if self.form is None:
            raise TrainingError("A model of the zoo trains on the batches it draws by itself.")
        return self.form

    def _timed(self, run: Callable[[], float], examples: int) -> float:
        """One step, counted and timed; Ctrl-C waits for its end, so that what is counted is what was done."""
        with ctrl_c_waits():
            begin = time.perf_counter()
            loss: float = self._answer(run)
            self.progress.history.add(loss, examples, time.perf_counter() - begin)
            self.progress.steps += 1
        return loss

    def _answer(self, run: Callable[[], Any]) -> Any:
        if self._failure is not None:
            raise TrainingError(self._failure)
        try:
            return run()
        except Exception as error:  # whatever TensorFlow, Ray or a reader of data raise
            reason = str(error) if isinstance(error, AutosyncError) else reason_of(error)
            done = f"Training ended after {self.progress.steps} steps"
            self._failure = f"{done}: {reason.rstrip('.')}. {self.progress.way_on()}"
            raise TrainingError(self._failure) from error


@dataclass(frozen=True)
class Objective:
    """The loss and metrics that a model is compiled with, besides its optimizer: see `autosync.distribute`."""

    loss: Any = None
    metrics: Any = ()


@final
class Measures:
    """Metrics over the examples trained on since `begin`: what the replicas counted, added up here."""

    def __init__(self, metrics: TaskMetrics | None, running: Running) -> None:
        self._metrics = metrics
        self._running = running
        self._states = metrics.initial if metrics else ()

    def begin(self) -> None:
        """Forget what was counted before. Raises `TrainingError`."""
        if self._metrics:
            self._running.take_metrics()
            self._states = self._metrics.initial

    def so_far(self) -> dict[str, float]:
        """The metrics so far, by name; empty without metrics. Raises `TrainingError`."""
        if not self._metrics:
            return {}
        taken = self._running.take_metrics()
        self._states = tuple(old + new for old, new in zip(self._states, taken, strict=True))
        return self._metrics.results(self._states)
