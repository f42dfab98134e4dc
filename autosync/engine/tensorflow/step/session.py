"""A session loads a model once and realizes strategies as training steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import final

from autosync.control import PLAINLY, controller_of
from autosync.engine.core.contract import TrainingStep
from autosync.engine.core.control_loop import ControlLoop
from autosync.engine.core.pacing import Pacing, Waits
from autosync.engine.tensorflow.capture.captured import CapturedModel
from autosync.engine.tensorflow.capture.optimizer import NO_RULE
from autosync.engine.tensorflow.placement import Placement
from autosync.engine.tensorflow.state import Optimizer
from autosync.engine.tensorflow.step.decided import DecidedStep
from autosync.engine.tensorflow.step.k_sync import KSyncStep
from autosync.engine.tensorflow.step.pace import offer_waits
from autosync.engine.tensorflow.step.placed_model import Placed, Start
from autosync.engine.tensorflow.step.recording import Recordings
from autosync.engine.tensorflow.step.replica import CompiledModel
from autosync.engine.tensorflow.step.stale import StaleStep
from autosync.engine.tensorflow.step.synchronous import SynchronousStep
from autosync.engine.tensorflow.training.evaluation import TensorFlowEvaluation
from autosync.errors import SpecError
from autosync.spec import PLAIN, ClusterSpec, Decision, ModelSpec, Strategy, check_strategy
from autosync.spec.pace import TRAINS_NOTHING

Exchange = Callable[[Strategy, Decision], float]
"""A function that returns the seconds of a strategy's exchange in a step with the given decision."""


def realize(
    model: CompiledModel,
    optimizers: Mapping[str, Optimizer],
    strategy: Strategy,
    placement: Placement,
    start: Start,
    pacing: Pacing | None = None,
    recordings: Recordings | None = None,
) -> TrainingStep:
    """Place every variable as `strategy` says. The strategy must have passed `check_strategy`.

    The step is traced when it is first called. With `pacing`, its passes are paced, and replay `recordings` unless
    gradients are held. Raises `SpecError` for a strategy of PyTorch's DistributedDataParallel, for
    `overlap_next_forward` with a rule over all gradients together or steps that the client decides, for staleness or a
    cut-off with loss scaling, for a rhythm with a rule over all gradients together, for loads of a model with a fixed
    batch size, and for a cut-off that stops late passes without pacing.
    """
    if strategy.ddp is not None:
        raise SpecError("PyTorch's DistributedDataParallel carries out this strategy; add --framework pytorch.")
    if strategy.overlap_next_forward and model.captured.gradient_rule != NO_RULE:
        raise SpecError(
            "Steps cannot overlap with the next forward pass, because the optimizer's clipping or loss scaling needs "
            "all gradients before any update; set overlap_next_forward to false."
        )
    placed = Placed(model, optimizers, strategy, placement, start)
    if strategy.staleness:
        return StaleStep(model, placed)
    controller = controller_of(strategy)
    if controller is None and pacing and pacing.held and (any(pacing.rates) or pacing.exchange):
        if strategy.overlap_next_forward:
            raise SpecError(
                "Steps cannot overlap with the next forward pass, because streams and virtual time are kept between "
                "two steps; set overlap_next_forward to false."
            )
        controller = PLAINLY  # steps of a controller can wait for a stream, or take virtual time
    if strategy.discipline.loads and not model.captured.any_batch_size:
        raise SpecError(
            f"Loads give replicas batches of different sizes, but {model.captured.spec.name!r} takes only one batch "
            "size; leave the batch size of its inputs open."
        )
    if controller is None:
        return SynchronousStep(model, placed, pacing, recordings)
    loads = strategy.discipline.loads
    if pacing is None and (strategy.discipline.waits or (loads and loads.dead_band is not None)):
        return ControlLoop(KSyncStep(model, placed), controller)
    return ControlLoop(DecidedStep(model, placed, pacing), controller)


@final
class TensorFlowSession:
    """Loads the model once. Every step that `realize` returns starts from the same initial values."""

    def __init__(
        self,
        captured: CapturedModel,
        cluster: ClusterSpec,
        placement: Placement,
        waits: Mapping[str, Waits] | None = None,
        exchange: Exchange | None = None,
    ) -> None:
        """`waits` are the waits that the process of each server device offers; None if this process runs all devices.

        With `exchange`, paced training takes virtual time (see `Pacing`).
        """
        self.captured = captured
        self.cluster = cluster
        self.placement = placement
        self._model = CompiledModel(captured)
        self._optimizers = {dtype: Optimizer(rule, captured.rules) for dtype, rule in captured.optimizers.items()}
        self._start = Start(self._model)
        self._recordings = Recordings(self._model, self._start)
        self._waits = waits
        self.exchange = exchange

    @property
    def model(self) -> ModelSpec:
        return self.captured.spec

    def evaluation(self, replicas: int) -> TensorFlowEvaluation:
        """Return the evaluation for training on `replicas` replicas."""
        return TensorFlowEvaluation(self._model, replicas)

    def with_real_gradients(self) -> TensorFlowSession:
        """Return a session for training: paced passes compute gradients, and hold them until their release times."""
        cluster = self.cluster.with_real_gradients
        return (
            self
            if cluster is self.cluster
            else TensorFlowSession(self.captured, cluster, self.placement, self._waits, self.exchange)
        )

    def realize(self, strategy: Strategy) -> TrainingStep:
        """Place the model's variables as `strategy` says. Raises `SpecError` if the strategy does not fit."""
        check_strategy(strategy, self.model, self.cluster)
        if self.cluster.paced and strategy.staleness:
            raise SpecError(
                "A paced cluster needs synchronous steps; take a strategy without staleness, or real passes."
            )
        pacing = self._pacing(strategy) if self.cluster.paced else None
        if pacing and not pacing.held and strategy.discipline != PLAIN:
            raise SpecError(TRAINS_NOTHING)
        return realize(self._model, self._optimizers, strategy, self.placement, self._start, pacing, self._recordings)

    def _pacing(self, strategy: Strategy) -> Pacing:
        waits = [self._waits[device] if self._waits else offer_waits() for device in strategy.replicas]
        exchange = None if self.exchange is None else partial(self.exchange, strategy)
        return Pacing.of(strategy.replicas, self.model, self.cluster, waits, exchange)
