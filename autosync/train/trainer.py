"""The trainer: trains a Keras model on a cluster and synchronizes gradients as a strategy describes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from autosync.baselines import Baseline
from autosync.engine.core.registry import engine_named
from autosync.engine.tensorflow.training.callbacks import Extent, Hooks
from autosync.engine.tensorflow.training.keras_data import DataArguments
from autosync.errors import TrainingError
from autosync.spec import ModelSpec, Strategy, check_strategy
from autosync.train.asked import PassPlan, Validation, as_steps, check_names
from autosync.train.checkpoint import Extras, read_extras, write_checkpoint
from autosync.train.data import BatchForm, Synthetic
from autosync.train.fitting import Fitting, first_batch
from autosync.train.given_data import batches_of
from autosync.train.given_strategy import check_factors, rename_for
from autosync.train.history import History
from autosync.train.mirror import Mirror
from autosync.train.place import PACED, TrainingPlace
from autosync.train.running import BatchSizes, Measures, Objective, Running, TrainingProgress
from trials.signals import ctrl_c_waits

if TYPE_CHECKING:
    from autosync.engine.tensorflow.capture.task import TrainingTask


@final
class Trainer:
    """Trains a model on a place. `distribute` creates one; it is a context manager, and `close` ends its processes.

    The model object stays in the caller's process, and the trained state lives on the workers. `update_model` copies
    that state to the model; `fit` and `save` do so when they end. To evaluate, call `update_model` and then
    `trainer.model.evaluate`.
    """

    def __init__(
        self,
        model: Any,
        strategy: Strategy | Baseline,
        place: TrainingPlace,
        task_of: Callable[[Any], TrainingTask],
        objective: Objective = Objective(),  # noqa: B008 (frozen)
    ) -> None:
        """`task_of(first batch)` returns the task to capture; `objective` is the loss and metrics the model is compiled
        with.
        """
        self.model = model
        self.cluster = place.cluster
        self.notes: tuple[str, ...] = place.notes
        self.spec: ModelSpec | None = None
        """The spec of the model, once it is captured."""
        self._given = strategy
        self._place = place
        self._task_of = task_of
        self._objective = objective
        self._progress = TrainingProgress()
        self._running: Running | None = None
        self._measures: Measures | None = None
        self._mirror: Mirror | None = None
        self._pending: Path | None = None

    def __enter__(self) -> Trainer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def strategy(self) -> Strategy:
        """The strategy. Raises `TrainingError` for a baseline before the model is captured."""
        if not isinstance(self._given, Strategy):
            raise TrainingError("The strategy of a baseline is known once the model is captured; call prepare(batch).")
        return self._given

    @property
    def steps(self) -> int:
        """Finished steps, including those before a restored checkpoint."""
        return self._progress.steps

    @property
    def history(self) -> History:
        """Loss, examples and seconds of every step of this trainer."""
        return self._progress.history

    def prepare(self, batch: Any) -> None:
        """Capture the model with an example of a batch and place it; the first step does this if it has not been done.

        Raises `ModelError`, `SpecError`, `ClusterError` or `TrainingError` if the parts do not fit together.
        """
        from autosync.engine.tensorflow.capture.optimizer import inner_optimizer
        from autosync.engine.tensorflow.training.keras_state import KerasState

        task = self._task_of(batch)
        engine = engine_named()
        captured: Any = engine.capture(task)
        if self.cluster.paced:
            captured = engine.profile(captured)  # a paced pass follows the measured profile
            self.notes += (PACED,)
        names = [variable.name for variable in captured.spec.variables]
        self.spec = captured.spec
        if isinstance(self._given, Strategy):
            self._given = rename_for(self._given, names, captured.state_names)
        else:
            self._given = self._given(captured.spec, self.cluster)
        if task.any_batch_size:
            check_factors(self.strategy, captured.spec)
        check_strategy(self.strategy, captured.spec, self.cluster)
        was_built = bool(inner_optimizer(task.optimizer).built)
        keras = KerasState(task.model, task.optimizer, captured, self._objective.loss, self._objective.metrics)
        form = None if batch is None else BatchForm.of(batch, None if task.any_batch_size else task.batch_size)
        sizes = BatchSizes(len(self.strategy.replicas), task.batch_size)
        self._running = Running(self._place.open(captured, self.strategy), form, sizes, self._progress)
        self._mirror = Mirror(self._running, keras)
        self._measures = Measures(task.metrics, self._running)
        self.model = task.model
        self.notes += (*filter(None, [self._place.exposure]), *captured.notes)
        if self._pending is not None:
            self._restore(self._pending)
        elif was_built:
            self._progress.steps = keras.iterations
            self._mirror.load(keras.read(self._running.state()))

    def step(self, batch: Any) -> float:
        """Train one step on `batch` = (inputs, targets), arrays or tensors with any number of examples; return the loss
        before it.

        Examples are split over the replicas as evenly as possible, and weighted so that loss and gradient are the mean
        over all of them, as in one process. Under a strategy with staleness S, the call returns while up to S steps are
        under way, with the loss of the last finished step. Raises `TrainingError`.
        """
        if self._running is None:
            self.prepare(batch)
        running, mirror = self._ready()
        mirror.take_over()
        return running.step(batch)

    def fit(
        self,
        dataset: Any,
        steps: Any = None,
        callbacks: Any = (),
        *,
        y: Any = None,
        batch_size: int | None = None,
        epochs: int | None = None,
        verbose: Any = 0,
        validation_split: float = 0.0,
        validation_data: Any = None,
        shuffle: Any = True,
        class_weight: Mapping[int, float] | None = None,
        sample_weight: Any = None,
        initial_epoch: int = 0,
        steps_per_epoch: int | None = None,
        validation_steps: int | None = None,
        validation_batch_size: int | None = None,
        validation_freq: int | Sequence[int] = 1,
        **unknown: Any,
    ) -> History:
        """Train for `epochs` passes over `dataset` (default 1) or for `steps` steps; return the history of these steps.

        `dataset` is one of: an iterable of batches (inputs, targets) or (inputs, targets, weights), such as a
        `tf.data.Dataset`, a list or a generator, which this process reads and splits; `Sharded` or `RayBatches`, which
        the workers read; or arrays, with their targets as the next argument or as `y`. Each pass iterates over the data
        again. The remaining arguments are those of `keras.Model.fit`; validation runs in this process.

        Callbacks are Keras callbacks, or objects with some of their methods. The model holds the current weights at
        each of their hooks (see `Hooks`). Training adopts weights, learning rates and `model.stop_training` that a
        callback sets. Raises `TrainingError` for arguments that exclude each other.
        """
        check_names(unknown)
        steps, y = as_steps(steps, y)
        passes = PassPlan(epochs, steps, steps_per_epoch, initial_epoch)
        hooks = Hooks(callbacks, _verbosity(verbose))
        data = DataArguments(
            y,
            sample_weight,
            class_weight,
            batch_size,
            shuffle,
            steps_per_epoch,
            _without(validation_data, validation_split),
        )
        dataset, held_out = batches_of(dataset, data)
        held_out = held_out if validation_data is None else validation_data
        validation_size = validation_batch_size or batch_size
        validation = Validation(held_out, validation_size, validation_steps, validation_freq)
        if self._running is None:
            is_known = isinstance(self._given, Strategy)
            replicas = self.strategy.replicas if is_known else self.cluster.replica_devices
            batch, dataset = first_batch(dataset, len(replicas))
            self.prepare(batch)
        running, mirror = self._ready()
        assert self._measures is not None, "made with the rest"
        before = len(self.history)
        hooks.introduce(self, mirror, Extent(passes.last, steps_per_epoch or steps))
        validates = None if held_out is None else validation
        overlaps = self.strategy.overlap_next_forward
        Fitting(running, mirror, dataset, passes, hooks, self._measures, validates, overlaps).run()
        return self.history.since(before)

    def train_own(self, steps: int, callbacks: Sequence[Any]) -> None:
        """Train `steps` steps on the batches that the model's task draws. Raises `TrainingError`."""
        self.fit(Synthetic(), steps, callbacks)

    def metrics(self, reset: bool = False) -> dict[str, float]:
        """Return the metrics passed to `distribute`, by name, over the examples trained on since the last reset.

        Every pass of `fit` resets the metrics, and so does a call with `reset`. Raises `TrainingError`.
        """
        self._ready()
        assert self._measures is not None, "made with the rest"
        metrics = self._measures.so_far()
        if reset:
            self._measures.begin()
        return metrics

    def update_model(self) -> None:
        """Write training's state to `model` and its optimizer."""
        self._ready()[1].show()

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write model and optimizer to `path`, which must end in .keras and is replaced atomically. Raises
        `TrainingError`.

        `keras.models.load_model(path)` returns the model, compiled with its optimizer, with the current slots,
        iteration and settings (and with the loss, if it is one of Keras'). For `restore`, the file also holds state
        that Keras does not know: each replica's own state, and the residuals of compressors.
        """
        with ctrl_c_waits():
            self._save(Path(path))
        return Path(path)

    def restore(self, path: str | os.PathLike[str]) -> None:
        """Resume from `path`, written by `save`, perhaps under another strategy, or by Keras for this model and
        optimizer.

        Under the same strategy, training resumes exactly, to the bit. Before the first step the file is only checked;
        it is loaded with that step. Raises `TrainingError` or `ModelError`.
        """
        read_extras(Path(path))
        if self._running is None:
            self._pending = Path(path)
        else:
            self._restore(Path(path))

    def pids(self) -> dict[str, int]:
        """Return the ids of the processes that train, by role; empty on logical devices."""
        return self._ready()[0].pids()

    def close(self) -> None:
        """End every process that was started for this trainer; a second call does nothing."""
        if self._running is not None:
            self._running.close()
        self._place.close()

    def _save(self, file: Path) -> None:
        running, mirror = self._ready()
        mirror.show()
        state = running.state()
        extras = Extras(
            steps=self.steps,
            strategy=self.strategy.digest,
            replica_state=state.replica_state,
            replica_steps=state.replica_steps,
            synchronizer_state=state.synchronizer_state,
            own=state.own,
            controller=state.controller,
        )
        write_checkpoint(file, mirror.keras.save, extras)
        self._progress.last_checkpoint = file

    def _restore(self, file: Path) -> None:
        running, mirror = self._ready()
        keras, extras, base = mirror.keras, read_extras(file), running.state()
        keras.load(file)
        steps = extras.steps if extras else keras.iterations
        state = replace(keras.read(base), replica_steps=(steps,) * len(base.replica_steps))
        if extras and len(extras.replica_steps) == len(base.replica_steps):
            state = replace(state, replica_state=extras.replica_state, replica_steps=extras.replica_steps)
        if extras and extras.strategy == self.strategy.digest:
            state = replace(
                state,
                synchronizer_state=extras.synchronizer_state,
                own=extras.own,
                controller=extras.controller,
            )
        mirror.load(state)
        self._progress.steps = steps
        self._progress.last_checkpoint = file

    def _ready(self) -> tuple[Running, Mirror]:
        if self._running is None or self._mirror is None:
            raise TrainingError("Nothing has been trained yet; call step, fit, or prepare with a first batch.")
        return self._running, self._mirror


def _verbosity(verbose: Any) -> int:
    """Return Keras' number for the amount of progress to show: "auto" is a bar."""
    if verbose not in ("auto", 0, 1, 2):
        raise TrainingError(f"verbose must be 0, 1, 2 or 'auto', not {verbose!r}.")
    return 1 if verbose == "auto" else int(verbose)


def _without(validation_data: Any, validation_split: float) -> float:
    """Return the fraction to split off; 0 if the caller passed validation data."""
    return 0.0 if validation_data is not None else validation_split
