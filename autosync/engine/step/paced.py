"""A paced step: everything behind the passes is the strategy's real step, and the passes take as long as they are told.

What a pass gives is either recorded (gradients of real steps, which cost no processor when they are replayed) or held
(the real gradients, to the bit those of the unpaced step).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
import numpy.typing as npt

from autosync.engine.step.ahead import Ahead
from autosync.engine.step.pace import Duration, Pacing, released
from autosync.engine.step.passes import RealPasses, mean_loss
from autosync.engine.step.recording import RECORDED_STEPS, Recording, Recordings, Turn
from autosync.engine.step.replica import Lookups, Replica, Results
from autosync.engine.step.step_function import step_function
from autosync.errors import SpecError
from autosync.spec.pace import TRAINS_NOTHING

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
        self._ahead = Ahead(pacing, step.placed.replicas)
        step.placed.wait()
        self._own = step_function(self._on_own)
        self._given = step_function(self._on_given, reduce_retracing=True)

    @property
    def placed(self) -> Placed:
        return self._step.placed

    def __call__(self) -> float:
        """Run one step on the replicas' own batches, or on those recorded; the mean loss before the update."""
        self._ahead.ready(self.seed, len(self.taken))
        return self._noted(self._own())

    def on(self, batches: Sequence[Sequence[Any]], weights: Sequence[float] | None = None) -> float:
        """Run one step on given flat batches, as `Step.on` does; a pass takes by how many examples it has."""
        import tensorflow as tf

        if not self._pacing.held:
            raise SpecError(TRAINS_NOTHING)
        examples = [int(batch[0].shape[0]) / self._pacing.model.batch_size for batch in batches]
        seconds = self._pacing.seconds(self.seed, len(self.taken), examples)
        shares = None if weights is None else tf.constant(list(weights), tf.float32)
        return self._noted(self._given([list(batch) for batch in batches], shares, seconds))

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

    def _noted(self, report: Any) -> float:
        loss, *told = report.numpy()
        of_replicas = np.reshape(told, (len(self.placed.replicas), -1))
        self.taken.append(TakenPasses(of_replicas[:, 0], of_replicas[:, 1:]))
        return float(loss)

    def _on_own(self) -> Any:
        durations = self._ahead.duration
        if self._recorded:
            return self._through(RecordedPasses(self._recorded), durations)
        batches = [each.next_batch() for each in self.placed.replicas]
        return self._through(RealPasses(batches, None), durations)

    def _on_given(self, batches: Sequence[Sequence[Any]], weights: Any, seconds: Any) -> Any:
        return self._through(RealPasses(batches, weights), lambda replica: Duration(seconds, None, replica))

    def _through(self, passes: RealPasses | RecordedPasses, durations: Callable[[int], Duration]) -> Any:
        """A step through `passes`, which take what `durations` says of each replica: the mean loss, then of every
        replica what its pass was to take and how late each release was.
        """
        import tensorflow as tf

        gate = Gate(passes, self._pacing, durations)
        results, _ = self._step.through(gate)
        device = self.placed.devices[0]
        with tf.device(device):
            told = tf.stack(gate.reports)  # a replica's loss travels with the rest, in one message
            losses = tf.unstack(tf.cast(told[:, 0], results[0].loss.dtype))
            loss = tf.cast(mean_loss(losses, device), tf.float64)
            return tf.concat([[loss], tf.reshape(told[:, 1:], [-1])], 0)


@final
class RecordedPasses:
    """Passes that are replayed from recordings, one a replica."""

    def __init__(self, recordings: Sequence[Recording]) -> None:
        self._recordings = recordings
        self._turns: dict[int, Turn] = {}

    def look_up(self, replica: Replica) -> Lookups:
        import tensorflow as tf

        with tf.device(replica.device):
            self._turns[replica.number] = Turn.of(replica.steps.read_value() % RECORDED_STEPS)
            replica.steps.assign_add(1)
        return self._recordings[replica.number].lookups(self._turns[replica.number])

    def run(self, replica: Replica, _values: Sequence[Any], _found: Lookups) -> Results:
        return self._recordings[replica.number].results(self._turns[replica.number])


@final
class Gate:
    """Passes whose gradients are released at their times. `reports` are each replica's, as of `released`."""

    def __init__(
        self, passes: RealPasses | RecordedPasses, pacing: Pacing, durations: Callable[[int], Duration]
    ) -> None:
        self._passes = passes
        self._pacing = pacing
        self._durations = durations
        self.reports: list[Any] = []

    def look_up(self, replica: Replica) -> Lookups:
        return self._passes.look_up(replica)

    def run(self, replica: Replica, values: Sequence[Any], found: Lookups) -> Results:
        computed = self._passes.run(replica, values, found)
        duration, waits = self._durations(replica.number), self._pacing.waits[replica.number]
        results, report = released(replica.device, waits, self._pacing.releases, values, duration, computed)
        self.reports.append(report)
        return results
