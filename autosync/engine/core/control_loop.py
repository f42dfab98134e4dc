"""The control loop: a controller decides a step, the step runs, and the controller observes the step's report."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, final

import numpy.typing as npt

from autosync.control import Controller
from autosync.engine.core.contract import DecidableStep
from autosync.engine.core.step_state import StepState
from autosync.engine.core.timetable import TakenPasses
from autosync.spec import StepReport
from autosync.spec.codec import check_fields, read_required


@final
class ControlLoop:
    """A `TrainingStep` of a strategy with a discipline. Its state includes the controller's."""

    def __init__(self, step: DecidableStep, controller: Controller) -> None:
        self.strategy = step.strategy
        self.step = step
        self.report: StepReport | None = None
        self.controller_seconds = 0.0
        self._controller = controller
        self._steps = 0

    @property
    def seed(self) -> int:
        """The seed of the lengths of paced passes."""
        return self.step.seed

    @seed.setter
    def seed(self, seed: int) -> None:
        self.step.seed = seed

    @property
    def taken(self) -> Sequence[TakenPasses]:
        return self.step.taken

    @property
    def recorded_steps(self) -> int:
        return self.step.recorded_steps

    def clock(self) -> float:
        return self.step.clock()

    def warm_up(self) -> None:
        self.step.warm_up(self._controller.decide())

    def __call__(self) -> float:
        """Take one step on the replicas' own synthetic batches; return the mean loss before the update."""
        return self._take()

    def on(self, batches: Sequence[Sequence[Any]], weights: Sequence[float] | None = None) -> float:
        """Take one step on given flat batches, one a replica, like `TrainingStep.on`."""
        return self._take(batches, weights)

    def values(self, replica: int = 0) -> dict[str, npt.NDArray[Any]]:
        return self.step.values(replica)

    def state(self) -> StepState:
        """Return the step's state with the controller's, and the number of steps so far."""
        controller = {"steps": self._steps, "state": self._controller.state()}
        return replace(self.step.state(), controller=controller)

    def load(self, state: StepState) -> None:
        """Continue from `state`; the controller continues too if the state includes the controller's."""
        self.step.load(state)
        if state.controller is not None:
            what = "A controller's saved state"
            check_fields(state.controller, ("steps", "state"), what)
            self._steps = read_required(state.controller, "steps", int, what)
            self._controller.restore(read_required(state.controller, "state", dict, what))

    def take_metrics(self) -> tuple[npt.NDArray[Any], ...]:
        return self.step.take_metrics()

    def settle(self) -> None:
        self.step.settle()

    def close(self) -> None:
        self.step.close()

    def _take(self, batches: Sequence[Sequence[Any]] | None = None, weights: Sequence[float] | None = None) -> float:
        begin = time.perf_counter()
        decision = self._controller.decide()
        decided = time.perf_counter()
        report = self.step.take(self._steps, decision, batches, weights)
        self._steps += 1
        end = time.perf_counter()
        self.report = report if report.seconds is not None else replace(report, seconds=end - decided)
        meets = self._controller.observe(self.report)
        self.controller_seconds += time.perf_counter() - end + decided - begin
        if decision.meets is None:
            self.report = replace(self.report, met=meets)
            if meets:
                self.step.meet()
        return self.report.loss
