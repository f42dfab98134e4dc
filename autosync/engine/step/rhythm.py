"""Steps after which replicas may differ: in some they meet, in the others each follows its own gradient.

Both are functions over one layout, chosen by whoever takes a step, so nothing in a step waits for what is decided.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, final

import numpy.typing as npt

from autosync.engine.capture.optimizer import NO_RULE
from autosync.engine.step.passes import RealPasses, mean_loss
from autosync.engine.step.replica import Results
from autosync.engine.step.step_function import step_function
from autosync.engine.step.step_state import StepState, state_of
from autosync.engine.sync.meeting import meeting
from autosync.errors import SpecError
from autosync.spec import Decision, StepReport

if TYPE_CHECKING:
    from autosync.engine.step.placed import Placed
    from autosync.engine.step.realize import Step


@final
class RhythmStep:
    """A strategy with a rhythm at work. Whoever takes a step decides if replicas meet in it."""

    def __init__(self, step: Step) -> None:
        """Take steps over what `step` has placed. Raises `SpecError` for a rule over all replicas' gradients."""
        if step.rule.rule != NO_RULE:
            raise SpecError(
                "Loss scaling and clipping by the common norm look at the gradients of all replicas together; train "
                "without them, or without a rhythm."
            )
        rhythm = step.strategy.discipline.rhythm
        assert rhythm is not None
        self.strategy = step.strategy
        self._step = step
        self._averages = rhythm.averages
        self._held = step.placed.replicated()
        self._meetings = [meeting(rhythm, held, len(step.placed.replicas)) for held in self._held]
        step.placed.wait()
        ways = (False, True, None)
        self._own = {meets: step_function(self._own_step(meets)) for meets in ways}
        self._given = {meets: step_function(self._given_step(meets), reduce_retracing=True) for meets in ways}
        self._meet = step_function(self._met)

    @property
    def placed(self) -> Placed:
        return self._step.placed

    def take(
        self,
        decision: Decision,
        batches: Sequence[Sequence[Any]] | None = None,
        weights: Sequence[float] | None = None,
    ) -> StepReport:
        """Run one step on the replicas' own synthetic batches or on given ones.

        Where it is still to be decided if they meet, they have not, and `meet` is what is left to do. `weights` are as
        in `Step.on`. Into a replica's own values its gradient goes unweighed, as the mean over its
        own examples; if it has none of them, as zero.
        """
        import tensorflow as tf

        if batches is None:
            told = self._own[decision.meets]()
        else:
            shares = None if weights is None else tf.constant(list(weights), tf.float32)
            told = self._given[decision.meets]([list(batch) for batch in batches], shares)
        loss, *square_norms = told.numpy().tolist()
        return StepReport(decision, loss, tuple(square_norms))

    def meet(self) -> None:
        """Let replicas average their parameters."""
        self._meet().numpy()

    def values(self, replica: int = 0) -> dict[str, npt.NDArray[Any]]:
        """Every variable's value as replica `replica` has it."""
        return self._step.values(replica)

    def state(self) -> StepState:
        """As of `Step.state`, with what each replica holds."""
        return state_of(self.placed, self._step.rule, self._own_variables)

    def load(self, state: StepState) -> None:
        """Go on from `state`; where it holds nothing of each replica's own, all have its values. Raises `SpecError`."""
        own = self._own_variables
        if state.own and [each.shape for each in state.own] != [tuple(each.shape) for each in own]:
            raise SpecError(
                "A saved state of replicas with values of their own fits the strategy it was saved with only."
            )
        self._step.load(state)
        if state.own:
            for variable, array in zip(own, state.own, strict=True):
                variable.assign(array)
        else:
            for each in self._meetings:
                each.begin()
        self.placed.wait()

    def settle(self) -> None:
        self._step.settle()

    def close(self) -> None:
        self._step.close()

    @property
    def _own_variables(self) -> list[Any]:
        """All that may differ from one replica to the next, or is remembered of meetings."""
        held = [variable for each in self._held for variable in (each.value, *each.slots)]
        return [*held, *(variable for each in self._meetings for variable in each.variables)]

    def _own_step(self, meets: bool | None) -> Any:
        return lambda: self._traced(meets, [replica.next_batch() for replica in self.placed.replicas], None)

    def _given_step(self, meets: bool | None) -> Any:
        return lambda batches, weights: self._traced(meets, batches, weights)

    def _traced(self, meets: bool | None, batches: Sequence[Sequence[Any]], weights: Any) -> Any:
        """The mean loss, and where it is to be decided if replicas meet, the squared norm of each one's gradient."""
        import tensorflow as tf

        apart = not meets or self._averages == "parameters"
        counted = weights if not apart or weights is None else tf.cast(weights > 0, weights.dtype)
        results = self._step.through(RealPasses(batches, counted), apart)
        losses = [each.loss for each in results]
        if apart and weights is not None:
            shares = tf.unstack(weights, len(results))
            losses = [each * tf.cast(share, each.dtype) for each, share in zip(losses, shares, strict=True)]
        if meets and apart:
            self._average()
        told = [mean_loss(losses, self.placed.devices[0])]
        if meets is None:
            told += [_square_norm(*each) for each in zip(results, self.placed.devices, strict=True)]
        with tf.device(self.placed.devices[0]):
            return tf.stack([tf.cast(each, tf.float64) for each in told])

    def _met(self) -> Any:
        import tensorflow as tf

        self._average()
        with tf.device(self.placed.devices[0]):
            return tf.constant(True)  # something to wait for; without a result, a call on workers only queues

    def _average(self) -> None:
        import tensorflow as tf

        for (held, mean), how in zip(self.placed.value_means(), self._meetings, strict=True):
            with tf.device(held.device):
                held.value.assign(how.met(mean))


def _square_norm(result: Results, device: str) -> Any:
    """The squared norm of all of a replica's gradients together, on its device, float64."""
    import tensorflow as tf

    with tf.device(device):
        return tf.add_n([tf.cast(tf.nn.l2_loss(each), tf.float64) for each in result.gradients.values()]) * 2
