"""A paced step: everything behind the passes is the strategy's real step, and the passes take as long as they are told.

What a pass gives is either recorded (gradients of real steps, which cost no processor when they are replayed) or held
(the real gradients, to the bit those of the unpaced step).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
import numpy.typing as npt

from autosync.engine.step.pace import Pacing, released
from autosync.engine.step.passes import RealPasses, mean_loss
from autosync.engine.step.recording import RECORDED_STEPS, Recording, Recordings
from autosync.engine.step.replica import Lookups, Replica, Results
from autosync.engine.step.step_function import step_function
from autosync.errors import SpecError
from autosync.spec.pace import TRIALS_ALONE

if TYPE_CHECKING:
    from autosync.engine.step.placed import Placed
    from autosync.engine.step.realize import Step
    from autosync.engine.step.step_state import StepState

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class TakenPasses:
    """The passes of one step: what each replica's was to take, (replicas,), and how late each release was, in seconds.

    `late` is (replicas, releases). The last release ends a pass.
    """

    seconds: Array
    late: Array


@final
class PacedStep:
    """A `Step` whose passes are paced. Steps are counted from 0, and `seed` says which draw each takes.

    `taken` has the passes of every step so far.
    """

    def __init__(self, step: Step, pacing: Pacing, recordings: Recordings) -> None:
        self.strategy = step.strategy
        self.seed = 0
        self.recorded_steps = 0 if pacing.held else RECORDED_STEPS
        self.taken: list[TakenPasses] = []
        self._step = step
        self._pacing = pacing
        self._recorded = () if pacing.held else recordings.of(step.placed.replicas)
        step.placed.wait()
        self._own = step_function(self._on_own)
        self._given = step_function(self._on_given, reduce_retracing=True)

    @property
    def placed(self) -> Placed:
        return self._step.placed

    def __call__(self) -> float:
        """Run one step on the replicas' own batches, or on those recorded; the mean loss before the update."""
        seconds = self._pacing.seconds(self.seed, len(self.taken))
        return self._noted(seconds, self._own(seconds))

    def on(self, batches: Sequence[Sequence[Any]], weights: Sequence[float] | None = None) -> float:
        """Run one step on given flat batches, as `Step.on` does; a pass takes by how many examples it has."""
        import tensorflow as tf

        if not self._pacing.held:
            raise SpecError(TRIALS_ALONE)
        examples = [int(batch[0].shape[0]) / self._pacing.model.batch_size for batch in batches]
        seconds = self._pacing.seconds(self.seed, len(self.taken), examples)
        shares = None if weights is None else tf.constant(list(weights), tf.float32)
        return self._noted(seconds, self._given([list(batch) for batch in batches], shares, seconds))

    def values(self, replica: int = 0) -> dict[str, npt.NDArray[Any]]:
        return self._step.values(replica)

    def state(self) -> StepState:
        return self._step.state()

    def load(self, state: StepState) -> None:
        self._step.load(state)

    def settle(self) -> None:
        self._step.settle()

    def close(self) -> None:
        self._step.close()

    def _noted(self, seconds: Array, report: Any) -> float:
        loss, *late = report.numpy()
        self.taken.append(TakenPasses(seconds, np.reshape(late, (len(seconds), -1))))
        return float(loss)

    def _on_own(self, seconds: Any) -> Any:
        if self._recorded:
            return self._through(RecordedPasses(self._recorded), seconds)
        return self._on_given([each.next_batch() for each in self.placed.replicas], None, seconds)

    def _on_given(self, batches: Sequence[Sequence[Any]], weights: Any, seconds: Any) -> Any:
        return self._through(RealPasses(batches, weights), seconds)

    def _through(self, passes: RealPasses | RecordedPasses, seconds: Any) -> Any:
        """A step through `passes`, each released in its `seconds`: the mean loss, then how late each release was."""
        import tensorflow as tf

        gate = Gate(passes, self._pacing, seconds)
        results = self._step.through(gate)
        device = self.placed.devices[0]
        with tf.device(device):
            # A replica's loss travels with its lateness, in one message.
            told = [tf.identity(each) for each in gate.reports]
            dtype = results[0].loss.dtype
            loss = tf.cast(mean_loss([tf.cast(each[0], dtype) for each in told], device), tf.float64)
            return tf.concat([[loss], *(each[1:] for each in told)], 0)


@final
class RecordedPasses:
    """Passes that are replayed from recordings, one a replica."""

    def __init__(self, recordings: Sequence[Recording]) -> None:
        self._recordings = recordings
        self._turns: dict[int, Any] = {}

    def look_up(self, replica: Replica) -> Lookups:
        import tensorflow as tf

        with tf.device(replica.device):
            self._turns[replica.number] = replica.steps.read_value() % RECORDED_STEPS
            replica.steps.assign_add(1)
        return self._recordings[replica.number].lookups(self._turns[replica.number])

    def run(self, replica: Replica, _values: Sequence[Any], _found: Lookups) -> Results:
        return self._recordings[replica.number].results(self._turns[replica.number])


@final
class Gate:
    """Passes whose gradients are released at their times. `reports` are each replica's loss, and how late it was."""

    def __init__(self, passes: RealPasses | RecordedPasses, pacing: Pacing, seconds: Any) -> None:
        self._passes = passes
        self._pacing = pacing
        self._seconds = seconds
        self.reports: list[Any] = []

    def look_up(self, replica: Replica) -> Lookups:
        return self._passes.look_up(replica)

    def run(self, replica: Replica, values: Sequence[Any], found: Lookups) -> Results:
        import tensorflow as tf

        computed = self._passes.run(replica, values, found)
        own, waits = self._seconds[replica.number], self._pacing.waits[replica.number]
        results, late = released(replica.device, waits, self._pacing.releases, values, own, computed)
        with tf.device(replica.device):
            self.reports.append(tf.concat([[tf.cast(results.loss, tf.float64)], late], 0))
        return results
