"""Steps that a controller decides, one after the other."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, final

import numpy.typing as npt

from autosync.control import Controller
from autosync.spec import Decision, StepReport, Strategy
from autosync.spec.codec import known_fields, required

if TYPE_CHECKING:
    from autosync.engine.step.paced import TakenPasses
    from autosync.engine.step.placed import Placed
    from autosync.engine.step.step_state import StepState


class Deciding(Protocol):
    """What takes steps as they are decided: a `DecidedStep`, or a `FirstStep`. The rest is as of `Step`."""

    strategy: Strategy
    seed: int

    @property
    def placed(self) -> Placed: ...

    @property
    def taken(self) -> Sequence[TakenPasses]:
        """The passes of every step so far, where they are paced."""
        ...

    def warm_up(self, decision: Decision) -> None:
        """Take steps of every kind that can be decided, of which `decision` is one; builds what each of them needs."""

    def take(
        self,
        number: int,
        decision: Decision,
        batches: Sequence[Sequence[Any]] | None = None,
        weights: Sequence[float] | None = None,
    ) -> StepReport:
        """Run step `number`, counted from 0, on the replicas' own synthetic batches or on given ones."""
        ...

    def clock(self) -> float:
        """The time in seconds by which steps take theirs."""
        ...

    def meet(self) -> None:
        """Let replicas average their parameters after a step for which that was left open."""

    def values(self, replica: int = 0) -> dict[str, npt.NDArray[Any]]: ...

    def state(self) -> StepState: ...

    def load(self, state: StepState) -> None: ...

    def settle(self) -> None: ...

    def close(self) -> None: ...


@final
class ControlledStep:
    """The step of a strategy with a discipline, used like a plain one; its state has that of the controller.

    `report` is that of the last step; `controller_seconds` are what deciding has taken so far.
    """

    recorded_steps = 0

    def __init__(self, step: Deciding, controller: Controller) -> None:
        self.strategy = step.strategy
        self.step = step
        self.report: StepReport | None = None
        self.controller_seconds = 0.0
        self._controller = controller
        self._steps = 0

    @property
    def seed(self) -> int:
        """Which draws paced passes take."""
        return self.step.seed

    @seed.setter
    def seed(self, seed: int) -> None:
        self.step.seed = seed

    @property
    def taken(self) -> Sequence[TakenPasses]:
        """The passes of every step so far, where they are paced."""
        return self.step.taken

    def warm_up(self) -> None:
        """Take steps of every kind that can be decided; to go back, `load` a state from before."""
        self.step.warm_up(self._controller.decide())

    @property
    def placed(self) -> Placed:
        return self.step.placed

    def clock(self) -> float:
        """The time in seconds by which steps take theirs."""
        return self.step.clock()

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
        """As of `Step.state`, with the controller's, and how many steps have been taken."""
        controller = {"steps": self._steps, "state": self._controller.state()}
        return replace(self.step.state(), controller=controller)

    def load(self, state: StepState) -> None:
        """Go on from `state`; the controller too, where the state has one's."""
        self.step.load(state)
        if state.controller is not None:
            what = "A controller's saved state"
            known_fields(state.controller, ("steps", "state"), what)
            self._steps = required(state.controller, "steps", int, what)
            self._controller.restore(required(state.controller, "state", dict, what))

    def settle(self) -> None:
        self.step.settle()

    def close(self) -> None:
        self.step.close()

    def _take(self, batches: Sequence[Sequence[Any]] | None = None, weights: Sequence[float] | None = None) -> float:
        before = time.perf_counter()
        decision = self._controller.decide()
        decided = time.perf_counter()
        report = self.step.take(self._steps, decision, batches, weights)
        self._steps += 1
        told = time.perf_counter()
        self.report = report if report.seconds is not None else replace(report, seconds=told - decided)
        meets = self._controller.observe(self.report)
        self.controller_seconds += time.perf_counter() - told + decided - before
        if decision.meets is None:
            self.report = replace(self.report, met=meets)
            if meets:
                self.step.meet()
        return self.report.loss
