"""Plans and cells for tests, and a back end that simulates the model and cluster of the test cases."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any, final

from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, Strategy
from autosync.stats.cells import CellName
from studies.collect.plan import Plan
from tests.cases import mlp_model, star_cluster
from tests.trials.scripted import ScriptedStep
from trials.clock import Environment, FakeClock
from trials.trial import TrialRequest, TrialSetup, run_trial

__all__ = ["CELL", "PretendBackend", "plan"]

CELL = CellName("mlp", "2x200mbit")


def plan(**changes: Any) -> Plan:
    usual = {
        "name": "test", "models": ["mlp"], "clusters": ["2x200mbit", "3x1gbit"], "strategies": 30, "block": 8,
        "repeat_distance": 8, "breed_after": 8,
        "random_share": 0.5, "repeat_share": 0.2, "warmup_steps": 1, "timed_steps": 3,
    }  # fmt: skip
    return Plan.model_validate(usual | changes)


@final
class PretendBackend:
    """The trial loop on a fake clock, with times that depend on the strategy; strategies in `lost` lose a worker."""

    def __init__(self, lost: Collection[str] = (), model: ModelSpec | None = None, nodes: int = 2) -> None:
        self.model: ModelSpec = model or mlp_model()
        self.cluster: ClusterSpec = star_cluster(nodes)
        self.requests: list[TrialRequest] = []
        self._lost = lost
        self._stage = TrialSetup(self.model, self.cluster, FakeClock(), Environment.here())

    def realize(self, strategy: Strategy) -> ScriptedStep:  # noqa: ARG002
        return ScriptedStep(lambda: 0.5)

    def run(self, request: TrialRequest) -> RuntimeRecord:
        self.requests.append(request)
        record = run_trial(self, request, self._stage)
        if request.strategy.digest in self._lost:
            return replace(record, outcome="lost", reason="A worker is gone.", step_seconds=())
        return record

    def close(self) -> None:
        """Do nothing, because there is no process to end."""
