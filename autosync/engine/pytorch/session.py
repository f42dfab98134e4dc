"""Sessions of the PyTorch engine: a captured module on all ranks of a cluster, and a step for each strategy."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from statistics import fmean
from typing import Any, final

import numpy as np
import torch

from autosync.engine.core.contract import Evaluation, TrainingStep
from autosync.engine.core.pacing import Pacing, Waits
from autosync.engine.core.step_state import StepState
from autosync.engine.core.timetable import TakenPasses
from autosync.engine.pytorch.capture import CapturedModule
from autosync.engine.pytorch.evaluation import PyTorchEvaluation
from autosync.engine.pytorch.rank import RECORDED_STEPS
from autosync.engine.pytorch.ranks import Ranks
from autosync.engine.pytorch.state import as_step_state, as_tensors, check_fits, replica_names
from autosync.engine.pytorch.transport import TransportError
from autosync.errors import AutosyncError, SpecError
from autosync.layout.apart import apart
from autosync.numeric import AnyArray, FloatArray
from autosync.spec import ClusterSpec, Decision, ModelSpec, StepReport, Strategy

OWN_DATA = (
    "Modules train on the batches of their model function; give it a DataLoader, or train in your own loop with "
    "autosync.torch.distribute."
)

NO_WAITS = Waits("", "", "")
"""Ranks of this engine wait by themselves, so workers offer nothing."""


def pacing_of(strategy: Strategy, model: ModelSpec, cluster: ClusterSpec) -> Pacing | None:
    """The pace of the strategy's replicas; None on a cluster that is not paced."""
    if not cluster.paced:
        return None
    return Pacing.of(strategy.replicas, model, cluster, [NO_WAITS] * len(strategy.replicas))


@final
class PyTorchStep:
    """A `TrainingStep`: all replicas take a step together, and wait for each other at the end of the backward pass, or
    in the next forward pass if communication overlaps with it."""

    report: StepReport | None = None
    controller_seconds = 0.0

    def __init__(
        self,
        ranks: Ranks,
        strategy: Strategy,
        captured: CapturedModule,
        cluster: ClusterSpec,
        pacing: Pacing | None,
    ) -> None:
        """`strategy` is realized on `ranks` already."""
        self.strategy = strategy
        self._model = captured.spec
        self._untrained = replica_names(captured)
        self._steps = 0
        self.seed = 0
        self.taken: list[TakenPasses] = []
        self.recorded_steps = RECORDED_STEPS if pacing is not None and not pacing.held else 0
        self._ranks = ranks
        self._pacing = pacing
        self._begun: deque[FloatArray | None] = deque()
        """The seconds of each replica's pass in the steps that have begun; None for a step that is not paced."""
        self._expected = 0
        devices = [str(device) for device in cluster.replica_devices]
        self._rank_of = [devices.index(replica) for replica in strategy.replicas]

    def __call__(self) -> float:
        """Take one step on the replicas' own batches, or on recorded gradients; the mean loss before the update."""
        self._expected = max(0, self._expected - 1)
        wanted = 2 if self._expected and self.strategy.overlap_next_forward else 1
        while len(self._begun) < wanted:
            self._begin()
        return self._end()

    def expect_steps(self, count: int) -> None:
        """Announce `count` further calls. If steps have no barrier, each rank begins its next step without waiting for
        the call. Values and state that are asked for before the last of these calls may be those of a later step."""
        self._expected = count

    def _begin(self) -> None:
        """Begin a step on all ranks."""
        if self._pacing is None:
            self._ranks.begin_step(None, is_held=False)
            self._begun.append(None)
            return
        of_replicas = self._pacing.seconds(self.seed, len(self.taken) + len(self._begun))
        of_ranks = np.empty(len(of_replicas))
        of_ranks[self._rank_of] = of_replicas
        self._ranks.begin_step(of_ranks.tolist(), is_held=self._pacing.held)
        self._begun.append(of_replicas)

    def _end(self) -> float:
        """End the first step that has begun; its mean loss."""
        of_replicas = self._begun.popleft()
        taken = self._ranks.end_step()
        self._steps += 1
        if of_replicas is not None:
            self.taken.append(TakenPasses(of_replicas, np.array([taken[rank].late for rank in self._rank_of])))
        return fmean(step.loss for step in taken)

    def on(self, batches: Sequence[Sequence[Any]], weights: Sequence[float] | None = None) -> float:
        del batches, weights
        raise SpecError(OWN_DATA)

    def warm_up(self) -> None:
        self()

    def clock(self) -> float:
        return time.perf_counter()

    def values(self, replica: int = 0) -> dict[str, AnyArray]:
        """The value of every variable as replica `replica` has it; bfloat16, which NumPy lacks, as float32."""
        self.settle()
        tensors = self._ranks.values(self._rank_of[replica])
        held = {decision.variable: tensors[decision.variable] for decision in self.strategy.variables}
        return {
            name: (tensor.float() if tensor.dtype is torch.bfloat16 else tensor).numpy()
            for name, tensor in held.items()
        }

    def state(self) -> StepState:
        self.settle()
        return as_step_state(self._ranks.state(), self._rank_of, self._steps)

    def load(self, state: StepState) -> None:
        self.settle()
        check_fits(state, self._model, self._rank_of, self._untrained)
        self._steps = state.replica_steps[0]
        self._ranks.load_state(as_tensors(state, self._rank_of, self._untrained), self._steps)

    def settle(self) -> None:
        while self._begun:
            self._end()

    def take_metrics(self) -> tuple[AnyArray, ...]:
        return ()

    def close(self) -> None:
        while self._begun:  # of a trial that has been stopped
            with suppress(AutosyncError, TransportError, RuntimeError):
                self._end()
        self._ranks.end()


@final
class PyTorchSession:
    """A captured module on all ranks; every step that it realizes starts from the captured values."""

    exchange: Callable[[Strategy, Decision], float] | None = None

    def __init__(self, captured: CapturedModule, cluster: ClusterSpec, ranks: Ranks, trains: bool = False) -> None:
        """With `trains`, steps take all of the model's data; otherwise see `Rank.realize`."""
        self.cluster = cluster
        self._captured = captured
        self._ranks = ranks
        self._trains = trains

    @property
    def model(self) -> ModelSpec:
        return self._captured.spec

    def realize(self, strategy: Strategy) -> TrainingStep:
        """Carry out `strategy` on all ranks. Raises `SpecError` if it does not fit or has an unsupported part."""
        model, _ = apart(self.model, strategy)
        pacing = pacing_of(strategy, model, self.cluster)
        self._ranks.realize(strategy, self._trains)
        if pacing is not None and not pacing.held:
            self._ranks.record()
        return PyTorchStep(self._ranks, strategy, self._captured, self.cluster, pacing)

    def evaluation(self, replicas: int) -> Evaluation:
        return PyTorchEvaluation(self._captured, replicas)

    def with_real_gradients(self) -> PyTorchSession:
        return PyTorchSession(self._captured, self.cluster.with_real_gradients, self._ranks, trains=True)
