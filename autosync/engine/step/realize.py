"""Realizing a strategy: one multi-device function that runs its step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, final

import numpy.typing as npt

from autosync.control import PLAINLY, controller_of
from autosync.engine.capture.captured import CapturedModel
from autosync.engine.capture.optimizer import NO_RULE
from autosync.engine.placement import Placement
from autosync.engine.state import Optimizer
from autosync.engine.step.controlled import ControlledStep
from autosync.engine.step.correction import RuleState
from autosync.engine.step.decided import DecidedStep
from autosync.engine.step.first import FirstStep
from autosync.engine.step.pace import Pacing, Waits, offered_waits
from autosync.engine.step.paced import PacedStep
from autosync.engine.step.passes import Passes, RealPasses, mean_loss
from autosync.engine.step.placed import Placed, Start
from autosync.engine.step.recording import Recordings
from autosync.engine.step.replica import CompiledModel, Results
from autosync.engine.step.stale import StaleStep
from autosync.engine.step.step_function import step_function
from autosync.engine.step.step_state import StepState, load_state, state_of, values_of
from autosync.engine.sync.update import Update
from autosync.engine.training.evaluation import Evaluation
from autosync.errors import SpecError
from autosync.spec import PLAIN, ClusterSpec, Decision, ModelSpec, Strategy, check_strategy
from autosync.spec.pace import TRAINS_NOTHING

Exchange = Callable[[Strategy, Decision], float]
"""How many seconds a strategy's exchange takes in a step that is decided so."""


def realize(
    model: CompiledModel,
    optimizers: Mapping[str, Optimizer],
    strategy: Strategy,
    placement: Placement,
    start: Start,
    pacing: Pacing | None = None,
) -> Step | StaleStep | ControlledStep:
    """Place every variable as `strategy` says. The strategy must have passed `check_strategy`.

    The step is traced when it is first called. Of a strategy with a discipline, or where examples come in streams,
    passes follow `pacing`. Raises
    `SpecError` for staleness or a cut-off with loss scaling, for a rhythm with what looks at all gradients together,
    for loads of a model with one batch size, and for a cut-off that stops passes which are not paced.
    """
    placed = Placed(model, optimizers, strategy, placement, start)
    if strategy.staleness:
        return StaleStep(model, placed)
    controller = controller_of(strategy)
    if controller is None and pacing and pacing.held and (any(pacing.rates) or pacing.exchange):
        controller = PLAINLY  # whose steps can wait for a stream, or in virtual time
    if strategy.discipline.loads and not model.captured.any_batch_size:
        raise SpecError(
            f"Loads give replicas batches of other sizes, and {model.captured.spec.name!r} takes those of one size "
            "only; leave the batch size of its inputs open."
        )
    if controller is None:
        return Step(model, placed)
    loads = strategy.discipline.loads
    if pacing is None and (strategy.discipline.waits or (loads and loads.dead_band is not None)):
        return ControlledStep(FirstStep(model, placed), controller)
    return ControlledStep(DecidedStep(Step(model, placed), pacing), controller)


@final
class Step:
    """A running strategy: call it for one synchronous step, read the values it has reached."""

    def __init__(self, model: CompiledModel, placed: Placed) -> None:
        self.strategy = placed.strategy
        self.placed = placed
        self.batch_size = model.captured.spec.batch_size
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
        results, _ = self.through(RealPasses(batches, weights))
        return mean_loss([each.loss for each in results], self.placed.devices[0])

    def through(self, passes: Passes, apart: bool = False, whole: bool = False) -> tuple[list[Results], list[Update]]:
        """Take a step whose passes are `passes`, while it is traced; what came of every replica's, and the updates.

        With `apart` each replica's gradient goes into its own values alone. With `whole` the updates are all of them;
        else without those that servers make as gradients come in.
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
            updates = placed.push(results, lookups, at_once=self.rule.rule == NO_RULE and not whole)
        placed.apply(updates, self.rule.correction(updates))
        return results, updates


@final
class Session:
    """Loads the model once; each `realize` gives a step that starts from the same initial values."""

    def __init__(
        self,
        captured: CapturedModel,
        cluster: ClusterSpec,
        placement: Placement,
        waits: Mapping[str, Waits] | None = None,
        exchange: Exchange | None = None,
    ) -> None:
        """`waits` are what the process of each server device offers (`offered_waits`); None where all is this one.

        With `exchange`, the time of paced training is virtual (`Pacing`).
        """
        self.captured = captured
        self.cluster = cluster
        self.placement = placement
        self._model = CompiledModel(captured)
        self._optimizers = {dtype: Optimizer(one, captured.rules) for dtype, one in captured.optimizers.items()}
        self._start = Start(self._model)
        self._recordings = Recordings(self._model, self._start)
        self._waits = waits
        self.exchange = exchange

    @property
    def model(self) -> ModelSpec:
        return self.captured.spec

    def evaluation(self, replicas: int) -> Evaluation:
        """What judges training on so many replicas."""
        return Evaluation(self._model, replicas)

    def with_real_gradients(self) -> Session:
        """The same, for training: where passes are paced they compute, and hold what they give until its time."""
        cluster = self.cluster.with_real_gradients
        return (
            self
            if cluster is self.cluster
            else Session(self.captured, cluster, self.placement, self._waits, self.exchange)
        )

    def realize(self, strategy: Strategy) -> Step | StaleStep | ControlledStep | PacedStep:
        """Place the model's variables as `strategy` says. Raises `SpecError` when it does not fit."""
        check_strategy(strategy, self.model, self.cluster)
        if self.cluster.paced and strategy.staleness:
            raise SpecError(
                "On a paced cluster steps are synchronous; take a strategy without staleness or real passes."
            )
        pacing = self._pacing(strategy) if self.cluster.paced else None
        if pacing and not pacing.held and strategy.discipline != PLAIN:
            raise SpecError(TRAINS_NOTHING)
        step = realize(self._model, self._optimizers, strategy, self.placement, self._start, pacing)
        return PacedStep(step, pacing, self._recordings) if pacing and isinstance(step, Step) else step

    def _pacing(self, strategy: Strategy) -> Pacing:
        waits = [self._waits[each] if self._waits else offered_waits() for each in strategy.replicas]
        exchange = None if self.exchange is None else partial(self.exchange, strategy)
        return Pacing.of(strategy.replicas, self.model, self.cluster, waits, exchange)
