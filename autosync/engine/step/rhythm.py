"""Steps after which replicas may differ: in some they meet, in the others each follows its own gradient.

Both are functions over one layout, chosen by whoever takes a step, so nothing in a step waits for what is decided.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, final

import numpy.typing as npt

from autosync.engine.capture.optimizer import NO_RULE
from autosync.engine.step.passes import RealPasses, mean_loss
from autosync.engine.step.step_function import step_function
from autosync.engine.sync.meeting import meeting
from autosync.errors import SpecError
from autosync.spec import Decision

if TYPE_CHECKING:
    from autosync.engine.step.placed import Placed
    from autosync.engine.step.realize import Step
    from autosync.engine.step.step_state import StepState


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
        self._own = {meets: step_function(self._own_step(meets)) for meets in (False, True)}
        self._given = {meets: step_function(self._given_step(meets), reduce_retracing=True) for meets in (False, True)}

    @property
    def placed(self) -> Placed:
        return self._step.placed

    def take(
        self,
        decision: Decision,
        batches: Sequence[Sequence[Any]] | None = None,
        weights: Sequence[float] | None = None,
    ) -> float:
        """Run one step on the replicas' own synthetic batches or on given ones; the mean loss before the update.

        `weights` are as in `Step.on`. Into a replica's own values its gradient goes unweighed, as the mean over its
        own examples; if it has none of them, as zero.
        """
        import tensorflow as tf

        if batches is None:
            return float(self._own[decision.meets]())
        shares = None if weights is None else tf.constant(list(weights), tf.float32)
        return float(self._given[decision.meets]([list(batch) for batch in batches], shares))

    def values(self, replica: int = 0) -> dict[str, npt.NDArray[Any]]:
        """Every variable's value as replica `replica` has it."""
        return self._step.values(replica)

    def state(self) -> StepState:
        """As of `Step.state`, with what each replica holds."""
        return replace(self._step.state(), own=tuple(each.numpy() for each in self._own_variables))

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

    def _own_step(self, meets: bool) -> Any:
        return lambda: self._traced(meets, [replica.next_batch() for replica in self.placed.replicas], None)

    def _given_step(self, meets: bool) -> Any:
        return lambda batches, weights: self._traced(meets, batches, weights)

    def _traced(self, meets: bool, batches: Sequence[Sequence[Any]], weights: Any) -> Any:
        import tensorflow as tf

        apart = not meets or self._averages == "parameters"
        if not apart or weights is None:
            losses = [each.loss for each in self._step.through(RealPasses(batches, weights), apart)]
        else:
            results = self._step.through(RealPasses(batches, tf.cast(weights > 0, weights.dtype)), apart)
            shares = tf.unstack(weights, len(results))
            losses = [each.loss * tf.cast(share, each.loss.dtype) for each, share in zip(results, shares, strict=True)]
        if meets and apart:
            for (held, mean), how in zip(self.placed.value_means(), self._meetings, strict=True):
                with tf.device(held.device):
                    held.value.assign(how.met(mean))
        return mean_loss(losses, self.placed.devices[0])
