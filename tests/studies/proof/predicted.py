"""A back end whose trials take the seconds that the closed form predicts, and stop early as real trials do."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import final

from autosync.cost import PRIORS, AnalyticSimulator, Simulator
from autosync.engine.core.versions import VERSIONS
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord
from tests.cases import mlp_model, star_cluster
from trials.trial import TrialRequest

SETUP_SECONDS = 0.3


@final
@dataclass
class PredictedBackend:
    """Runs trials of `model` on `cluster`; strategies in `lost` lose a worker."""

    model: ModelSpec = field(default_factory=mlp_model)
    cluster: ClusterSpec = field(default_factory=lambda: star_cluster(2))
    simulator: Simulator = field(default_factory=lambda: AnalyticSimulator(PRIORS["pytorch"]))
    lost: Collection[str] = ()
    requests: list[TrialRequest] = field(default_factory=list)

    def run(self, request: TrialRequest) -> RuntimeRecord:
        self.requests.append(request)
        protocol = request.protocol
        seconds = math.exp(self.simulator.predict(self.model, self.cluster, [request.strategy])[0])
        best = request.best_median_seconds
        is_slow = best is not None and seconds > protocol.stop_factor * best
        steps = protocol.check_after if is_slow else protocol.timed_steps
        record = RuntimeRecord(
            self.model,
            self.cluster,
            request.strategy,
            protocol,
            "stopped" if is_slow else "ok",
            request.purpose,
            request.label,
            request.run,
            request.seed,
            float(len(self.requests)),
            reason="It was slow." if is_slow else "",
            setup_seconds=SETUP_SECONDS,
            total_seconds=SETUP_SECONDS + seconds * (protocol.warmup_steps + steps),
            step_seconds=(seconds,) * steps,
            predicted_seconds=request.predicted_seconds,
            framework="pytorch",
            versions={"autosync.engine": str(VERSIONS["pytorch"])},
        )
        if request.strategy.digest in self.lost:
            return replace(record, outcome="lost", reason="A worker is gone.", step_seconds=())
        return record

    def close(self) -> None:
        """Do nothing, because there is no process to end."""
