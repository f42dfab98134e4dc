"""Steps that a controller decides, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, final

import numpy.typing as npt

from autosync.control import Controller

if TYPE_CHECKING:
    from autosync.engine.step.placed import Placed
    from autosync.engine.step.rhythm import RhythmStep
    from autosync.engine.step.step_state import StepState


@final
class ControlledStep:
    """The step of a strategy with a discipline, used like a plain one; its state has that of the controller."""

    def __init__(self, step: RhythmStep, controller: Controller) -> None:
        self.strategy = step.strategy
        self.step = step
        self._controller = controller

    @property
    def placed(self) -> Placed:
        return self.step.placed

    def __call__(self) -> float:
        """Take one step on the replicas' own synthetic batches; the mean loss before it."""
        return self._take()

    def on(self, batches: Sequence[Sequence[Any]], weights: Sequence[float] | None = None) -> float:
        """Take one step on given flat batches, one a replica. See `Step.on`."""
        return self._take(batches, weights)

    def values(self, replica: int = 0) -> dict[str, npt.NDArray[Any]]:
        """Every variable's value as replica `replica` has it."""
        return self.step.values(replica)

    def state(self) -> StepState:
        """As of `Step.state`, with the controller's."""
        return replace(self.step.state(), controller=self._controller.state())

    def load(self, state: StepState) -> None:
        """Go on from `state`; the controller too, where the state has one's."""
        self.step.load(state)
        if state.controller is not None:
            self._controller.restore(state.controller)

    def settle(self) -> None:
        self.step.settle()

    def close(self) -> None:
        self.step.close()

    def _take(self, batches: Sequence[Sequence[Any]] | None = None, weights: Sequence[float] | None = None) -> float:
        decision = self._controller.decide()
        report = self.step.take(decision, batches, weights)
        meets = self._controller.observe(report)
        if decision.meets is None and meets:
            self.step.meet()
        return report.loss
