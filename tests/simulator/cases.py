"""Made-up runtimes that a replay explains in part, small settings, and models and clusters with their strategies."""

from __future__ import annotations

import numpy as np

from autosync.cost import Replay, ReplayCoefficients
from autosync.simulator import TrainingSettings
from autosync.spec import ClusterSpec, ModelSpec, ParameterServer, RuntimeRecord, Strategy, TimingProtocol
from tests import cases
from tests.space.samples import sampled

__all__ = ["CLUSTER", "MODEL", "QUICK", "law", "records"]

MODEL, CLUSTER = cases.bert_like_model(layers=1), cases.star_cluster()
QUICK = TrainingSettings(members=2, steps=60, batch=32, learning_rate=0.02)
MACHINE = ReplayCoefficients(0.02, 1e-10, core_seconds_per_message=5e-4, core_seconds_per_byte=3e-9)


def law(model: ModelSpec, cluster: ClusterSpec, strategies: list[Strategy]) -> np.ndarray:
    """Return log seconds: another machine's replay, plus two surcharges that no replay knows.

    The first surcharge is on variables on servers. The second is on neighbours in the model if exactly one is on a
    server.
    """
    surcharges = []
    for strategy in strategies:
        first = [strategy.by_name[variable.name].shards[0] for variable in model.variables]
        served = np.array([isinstance(shard, ParameterServer) for shard in first])
        surcharges.append(0.3 * served.mean() + 0.4 * (served[1:] != served[:-1]).mean())
    return Replay(MACHINE).predict(model, cluster, strategies) + np.array(surcharges)


def records(
    count: int, seed: int = 1, model: ModelSpec = MODEL, cluster: ClusterSpec = CLUSTER, noise: float = 0.02
) -> list[RuntimeRecord]:
    """Return records of `law`, ten steps each; trials deviate by `noise` (log seconds)."""
    strategies, rng = sampled(model, cluster, count, seed), np.random.default_rng(seed)
    log_seconds = law(model, cluster, strategies) + rng.normal(0, noise, count)
    times = np.exp(log_seconds[:, None] + rng.normal(0, 0.01, (count, 10)))
    return [
        RuntimeRecord(
            model, cluster, strategy, TimingProtocol(), "ok", "search", "x", "r", 0, 0.0, step_seconds=tuple(row)
        )
        for strategy, row in zip(strategies, times.tolist(), strict=True)
    ]
