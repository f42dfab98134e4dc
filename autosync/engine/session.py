"""A captured model on a set of devices, ready to realize one strategy after another."""

from __future__ import annotations

from typing import final

from autosync.engine.captured import CapturedModel
from autosync.engine.placed import Start
from autosync.engine.placement import Placement
from autosync.engine.realize import Step, realize
from autosync.engine.replica import CompiledModel
from autosync.engine.stale import StaleStep
from autosync.engine.state import Optimizer
from autosync.spec import ClusterSpec, ModelSpec, Strategy, check_strategy

__all__ = ["Session"]


@final
class Session:
    """Loads the model once; each `realize` gives a step that starts from the same initial values."""

    def __init__(self, captured: CapturedModel, cluster: ClusterSpec, placement: Placement) -> None:
        self.captured = captured
        self.cluster = cluster
        self.placement = placement
        self._model = CompiledModel(captured)
        self._optimizers = {dtype: Optimizer(each) for dtype, each in captured.optimizers.items()}
        self._start = Start(self._model)

    @property
    def model(self) -> ModelSpec:
        return self.captured.spec

    def realize(self, strategy: Strategy) -> Step | StaleStep:
        """Place the model's variables as `strategy` says. Raises `SpecError` when it does not fit."""
        check_strategy(strategy, self.model, self.cluster)
        return realize(self._model, self._optimizers, strategy, self.placement, self._start)
