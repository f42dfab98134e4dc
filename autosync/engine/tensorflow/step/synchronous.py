"""Synchronous steps: the passes of all replicas and the updates, in one function over all devices.

Passes run freely or are paced. A paced pass releases its gradients at stated times. It either computes its gradients,
which are held until then and equal those of the unpaced step to the bit, or replays the gradients of recorded steps,
which takes no processor time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, final

import numpy as np
import tensorflow as tf

from autosync.engine.core.pacing import Pacing
from autosync.engine.core.timetable import TakenPasses
from autosync.engine.tensorflow.step.pace import Duration
from autosync.engine.tensorflow.step.passes import PacedPasses, Passes, RealPasses, RecordedPasses, mean_loss
from autosync.engine.tensorflow.step.placed_model import Placed
from autosync.engine.tensorflow.step.placed_step import PlacedStep
from autosync.engine.tensorflow.step.prefetched_durations import PrefetchedDurations
from autosync.engine.tensorflow.step.recording import RECORDED_STEPS, Recordings
from autosync.engine.tensorflow.step.replica import CompiledModel
from autosync.engine.tensorflow.step.step_function import step_function
from autosync.errors import SpecError
from autosync.spec import StepReport
from autosync.spec.pace import TRAINS_NOTHING


@final
class SynchronousStep(PlacedStep):
    """A `TrainingStep` in which no replica runs ahead. Paced steps count from 0, and `seed` draws their lengths."""

    report: StepReport | None = None
    controller_seconds = 0.0

    def __init__(
        self, model: CompiledModel, placed: Placed, pacing: Pacing | None = None, recordings: Recordings | None = None
    ) -> None:
        """With `pacing`, passes are paced, and replay `recordings` unless the pace asks for held gradients."""
        super().__init__(model, placed)
        self._pacing = pacing
        self._recorded = () if recordings is None or pacing is None or pacing.held else recordings.of(placed.replicas)
        self.recorded_steps = RECORDED_STEPS if self._recorded else 0
        self._durations = PrefetchedDurations(pacing, placed.replicas) if pacing else None
        if pacing:
            placed.wait()
        self._own_batches = step_function(self._step)
        self._given_batches = step_function(self._step_on, reduce_retracing=True)
        self._calls: dict[int, Callable[[], Any]] = {}

    def __call__(self) -> float:
        """Take one step on the replicas' own or recorded batches; return the mean loss before the update."""
        if self._durations:
            self._durations.prepare(self.seed, len(self.taken))
        return self._loss(self._own_batches())

    def several(self, count: int) -> list[float]:
        """Take `count` steps like `__call__`, in one call; return the mean loss of each.

        In the call a read of a variable waits for the variable's own last update, and no barrier separates steps.
        """
        if self._durations:
            self._durations.prepare(self.seed, len(self.taken), count)
        if count not in self._calls:
            self._calls[count] = step_function(partial(self._steps, count))
        return [self._loss(of_step) for of_step in self._calls[count]().numpy()]

    def on(self, batches: Sequence[Sequence[tf.Tensor]], weights: Sequence[float] | None = None) -> float:
        """Take one step on given flat batches, like `TrainingStep.on`. A paced pass takes time by its examples."""
        shares = None if weights is None else tf.constant(list(weights), tf.float32)
        lists = [list(batch) for batch in batches]
        if self._pacing is None:
            return self._loss(self._given_batches(lists, shares, None))
        if not self._pacing.held:
            raise SpecError(TRAINS_NOTHING)
        examples = [int(batch[0].shape[0]) / self.batch_size for batch in batches]
        seconds = self._pacing.seconds(self.seed, len(self.taken), examples)
        return self._loss(self._given_batches(lists, shares, seconds))

    def warm_up(self) -> None:
        self()

    def _step(self) -> Any:
        if self._recorded:
            passes: Passes = RecordedPasses(self._recorded)
        else:
            passes = RealPasses([replica.next_batch() for replica in self.placed.replicas], None)
        return self._trace(passes, self._durations.duration if self._durations else None)

    def _steps(self, count: int) -> Any:
        """Trace `count` steps, whose reads and writes TensorFlow orders variable by variable; stack their results."""
        steps = [self._step() for _ in range(count)]
        with tf.device(self.placed.devices[0]):
            return tf.stack(steps)

    def _step_on(self, batches: Sequence[Sequence[tf.Tensor]], weights: Any, seconds: tf.Tensor) -> Any:
        durations = None if seconds is None else lambda replica: Duration(seconds, None, replica)
        return self._trace(RealPasses(batches, weights), durations)

    def _trace(self, passes: Passes, durations: Callable[[int], Duration] | None) -> Any:
        """Trace a step. The result is the mean loss; if passes are paced, the requested length of each replica's pass
        and the lateness of its releases follow.
        """
        device = self.placed.devices[0]
        if durations is None or self._pacing is None:
            results, _ = self._through(passes)
            return mean_loss([result.loss for result in results], device)
        gate = PacedPasses(passes, self._pacing, durations)
        results, _ = self._through(gate)
        with tf.device(device):
            reports = tf.stack(gate.reports)  # a replica's loss and times share one message
            losses = tf.unstack(tf.cast(reports[:, 0], results[0].loss.dtype))
            loss = tf.cast(mean_loss(losses, device), tf.float64)
            return tf.concat([[loss], tf.reshape(reports[:, 1:], [-1])], 0)

    def _loss(self, returned: Any) -> float:
        """Return the loss in the result of a step, a tensor or an array, and record the passes of a paced step."""
        if self._pacing is None:
            return float(returned)
        loss, *passes = np.asarray(returned)
        of_replicas = np.reshape(passes, (len(self.placed.replicas), -1))
        self.taken.append(TakenPasses(of_replicas[:, 0], of_replicas[:, 1:]))
        return float(loss)
