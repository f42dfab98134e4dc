"""Trains a module under a strategy, on the batches of its model function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from autosync.engine.core.contract import Session
from autosync.engine.core.prefetch import Reader, Spec
from autosync.engine.core.step_state import StepState
from autosync.engine.pytorch.session import OWN_DATA, PyTorchStep
from autosync.errors import SpecError
from autosync.numeric import AnyArray
from autosync.spec import Strategy


@final
class PyTorchTraining:
    """A `Runner` of a session's ranks. It refuses data from elsewhere."""

    def __init__(self, session: Session, strategy: Strategy) -> None:
        self._step = session.with_real_gradients().realize(strategy)

    def own(self) -> float:
        return self._step()

    def several(self, count: int) -> list[float]:
        if isinstance(self._step, PyTorchStep):
            self._step.expect_steps(count)
        return [self._step() for _ in range(count)]

    def on(self, batches: Sequence[Sequence[Any]], counted: Sequence[int]) -> float:
        del counted
        return self._step.on(batches)

    def open_feed(self, read: Reader, specs: Sequence[Spec]) -> None:
        del read, specs
        raise SpecError(OWN_DATA)

    def read(self) -> int:
        raise SpecError(OWN_DATA)

    def on_read(self) -> float:
        raise SpecError(OWN_DATA)

    def take_metrics(self) -> tuple[AnyArray, ...]:
        return self._step.take_metrics()

    def state(self) -> StepState:
        return self._step.state()

    def load(self, state: StepState) -> None:
        self._step.load(state)

    def pids(self) -> dict[str, int]:
        return {}

    def close(self) -> None:
        self._step.close()
