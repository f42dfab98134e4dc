"""Realizing a strategy: one multi-device function that runs its step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy.typing as npt

from autosync.control import controller_of
from autosync.engine.capture.captured import CapturedModel
from autosync.engine.capture.optimizer import NO_RULE
from autosync.engine.placement import Placement
from autosync.engine.state import Optimizer
from autosync.engine.step.controlled import ControlledStep
from autosync.engine.step.correction import RuleState
from autosync.engine.step.pace import Pacing, Waits, offered_waits
from autosync.engine.step.paced import PacedStep
from autosync.engine.step.passes import Passes, RealPasses, mean_loss
from autosync.engine.step.placed import Placed, Start
from autosync.engine.step.recording import Recordings
from autosync.engine.step.replica import CompiledModel, Results
from autosync.engine.step.rhythm import RhythmStep
from autosync.engine.step.stale import StaleStep
from autosync.engine.step.step_function import step_function
from autosync.engine.step.step_state import StepState, load_state, state_of, values_of
from autosync.errors import SpecError
from autosync.spec import PLAIN, ClusterSpec, ModelSpec, Strategy, check_strategy


def realize(
    model: CompiledModel, optimizers: Mapping[str, Optimizer], strategy: Strategy, placement: Placement, start: Start
) -> Step | StaleStep | ControlledStep:
    """Place every variable as `strategy` says. The strategy must have passed `check_strategy`.

    The step is traced when it is first called. Raises `SpecError` for staleness with loss scaling, and for a rhythm
    with what looks at all gradients together.
    """
    placed = Placed(model, optimizers, strategy, placement, start)
    if strategy.staleness:
        return StaleStep(model, placed)
    step, controller = Step(model, placed), controller_of(strategy)
    return step if controller is None else ControlledStep(RhythmStep(step), controller)


@final
class Step:
    """A strategy at work: call it for one synchronous step, read the values it has reached."""

    def __init__(self, model: CompiledModel, placed: Placed) -> None:
        self.strategy = placed.strategy
        self.placed = placed
        self.rule = RuleState(model.captured.gradient_rule, placed.replicas)
        self._own_batches = step_function(self._step)
        self._given_batches = step_function(self._step_on, reduce_retracing=True)

    def __call__(self) -> float:
        """Run one step on the replicas' own synthetic batches; the mean loss before the update."""
        return float(self._own_batches())

    def on(self, batches: Sequence[Sequence[Any]], weights: Sequence[float] | None = None) -> float:
        """Run one step on given flat batches, one a replica; the mean loss before the update.

        `weights` are what each replica's loss and gradient count, 1 on the mean: its share of the examples times the
        number of replicas, where batches differ in size.
        """
        import tensorflow as tf

        shares = None if weights is None else tf.constant(list(weights), tf.float32)
        return float(self._given_batches([list(batch) for batch in batches], shares))

    def values(self, replica: int = 0) -> dict[str, npt.NDArray[Any]]:
        """Every variable's value as replica `replica` sees it."""
        return values_of(self.placed, replica)

    def state(self) -> StepState:
        """Everything the next step depends on."""
        return state_of(self.placed, self.rule)

    def load(self, state: StepState) -> None:
        """Go on from `state`, which a step of the same model and strategy gave. Raises `SpecError`."""
        load_state(self.placed, self.rule, state)

    def settle(self) -> None:
        """Do nothing: a synchronous step is over when its call returns."""

    def close(self) -> None:
        """Do nothing: a synchronous step has no threads."""

    def _step(self) -> Any:
        return self._step_on([replica.next_batch() for replica in self.placed.replicas], None)

    def _step_on(self, batches: Sequence[Sequence[Any]], weights: Any) -> Any:
        results = self.through(RealPasses(batches, weights))
        return mean_loss([each.loss for each in results], self.placed.devices[0])

    def through(self, passes: Passes, apart: bool = False) -> list[Results]:
        """Take a step whose passes are `passes`, while it is traced; what came of every replica's.

        With `apart` each replica's gradient goes into its own values alone.
        """
        placed = self.placed
        placed.begin()
        lookups = [passes.look_up(replica) for replica in placed.replicas]
        values = placed.pull(lookups)
        results = [
            passes.run(replica, of_replica, found)
            for replica, of_replica, found in zip(placed.replicas, values, lookups, strict=True)
        ]
        if apart:
            updates = placed.apart(results, lookups)
        else:
            updates = placed.push(results, lookups, at_once=self.rule.rule == NO_RULE)
        placed.apply(updates, self.rule.correction(updates))
        return results


@final
class Session:
    """Loads the model once; each `realize` gives a step that starts from the same initial values."""

    def __init__(
        self,
        captured: CapturedModel,
        cluster: ClusterSpec,
        placement: Placement,
        waits: Mapping[str, Waits] | None = None,
    ) -> None:
        """`waits` are what the process of each server device offers (`offered_waits`); None where all is this one."""
        self.captured = captured
        self.cluster = cluster
        self.placement = placement
        self._model = CompiledModel(captured)
        self._optimizers = {dtype: Optimizer(each) for dtype, each in captured.optimizers.items()}
        self._start = Start(self._model)
        self._recordings = Recordings(self._model, self._start)
        self._waits = waits

    @property
    def model(self) -> ModelSpec:
        return self.captured.spec

    def realize(self, strategy: Strategy) -> Step | StaleStep | ControlledStep | PacedStep:
        """Place the model's variables as `strategy` says. Raises `SpecError` when it does not fit."""
        check_strategy(strategy, self.model, self.cluster)
        if self.cluster.paced and strategy.staleness:
            raise SpecError(
                "On a paced cluster steps are synchronous; take a strategy without staleness or real passes."
            )
        if self.cluster.paced and strategy.discipline != PLAIN:
            raise SpecError("On a paced cluster all steps are alike; take a strategy without a discipline.")
        step = realize(self._model, self._optimizers, strategy, self.placement, self._start)
        if not self.cluster.paced:
            return step
        assert isinstance(step, Step)
        waits = [self._waits[each] if self._waits else offered_waits() for each in strategy.replicas]
        return PacedStep(step, Pacing.of(strategy.replicas, self.model, self.cluster, waits), self._recordings)
