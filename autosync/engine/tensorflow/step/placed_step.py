"""The base of all steps: saves and loads the state of a placed strategy, and builds the computation of one step."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from autosync.engine.core.step_state import StepState
from autosync.engine.core.timetable import TakenPasses
from autosync.engine.tensorflow.capture.optimizer import NO_RULE
from autosync.engine.tensorflow.step.global_gradient_rule import RuleState
from autosync.engine.tensorflow.step.passes import Passes
from autosync.engine.tensorflow.step.placed_model import Placed
from autosync.engine.tensorflow.step.placed_state import load_state, state_of, values_of
from autosync.engine.tensorflow.step.replica import CompiledModel, Results
from autosync.engine.tensorflow.sync.update import Update


class PlacedStep:
    """The common part of this engine's steps. It implements `StatefulStep` for steps without threads."""

    recorded_steps = 0

    def __init__(self, model: CompiledModel, placed: Placed) -> None:
        self.strategy = placed.strategy
        self.placed = placed
        self.batch_size = model.captured.spec.batch_size
        self.rule = RuleState(model.captured.gradient_rule, placed.replicas)
        self.seed = 0
        self.taken: list[TakenPasses] = []

    def clock(self) -> float:
        return time.perf_counter()

    def values(self, replica: int = 0) -> dict[str, npt.NDArray[Any]]:
        """Return every variable's value as replica `replica` sees it."""
        return values_of(self.placed, replica)

    def state(self) -> StepState:
        """Return everything that the next step depends on, except for passes of late replicas."""
        self.settle()
        return state_of(self.placed, self.rule, self._replica_variables())

    def load(self, state: StepState) -> None:
        """Continue from `state`. Raises `SpecError` if the state belongs to another model or strategy."""
        self.settle()
        load_state(self.placed, self.rule, state)

    def take_metrics(self) -> tuple[npt.NDArray[Any], ...]:
        """Return the states of the model's metrics, summed over replicas, and reset the metrics."""
        self.settle()
        of_replicas = [[metric.numpy() for metric in replica.metrics] for replica in self.placed.replicas]
        for replica in self.placed.replicas:
            replica.reset_metrics()
        self.placed.wait()
        return tuple(np.sum(states, axis=0, dtype=states[0].dtype) for states in zip(*of_replicas, strict=True))

    def settle(self) -> None:
        """Do nothing, because a step without threads is over when its call returns."""

    def close(self) -> None:
        """Do nothing, because there are no threads."""

    def _replica_variables(self) -> Sequence[Any]:
        """The variables whose values may differ between replicas, and the memory of outer optimizers."""
        return ()

    def _through(
        self, passes: Passes, *, apart: bool = False, with_all_updates: bool = False
    ) -> tuple[list[Results], list[Update]]:
        """Trace a step with `passes`; return the results of every replica's pass, and the updates.

        With `apart`, each replica's gradient updates only the replica's own values. Servers usually apply their updates
        as gradients arrive, and the list then lacks these updates. With `with_all_updates`, servers wait for all
        gradients, and the list is complete.
        """
        placed = self.placed
        placed.begin()
        lookups = [passes.look_up(replica) for replica in placed.replicas]
        values = placed.pull(lookups)
        results = [
            passes.run(replica, of_replica, touched)
            for replica, of_replica, touched in zip(placed.replicas, values, lookups, strict=True)
        ]
        if apart:
            updates = placed.apart(results, lookups)
        else:
            updates = placed.push(results, lookups, at_once=self.rule.rule == NO_RULE and not with_all_updates)
        placed.apply(updates, self.rule.correction(updates))
        return results, updates
