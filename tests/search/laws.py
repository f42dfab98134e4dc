"""Made-up laws of step time: a true law to search on, and a simulator that knows its shape but not its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from autosync.numeric import FloatArray
from autosync.search.protocol import Proposal
from autosync.space import SearchSpace
from autosync.spec import AllReduce, ClusterSpec, ModelSpec, RuntimeRecord, Strategy, TimingProtocol, shard_sizes

__all__ = ["StepLaw", "rough_simulator", "timed", "truth"]


@final
@dataclass
class StepLaw:
    """Step seconds = compute + the busiest server's bytes and messages + ring bytes + ring starts, each at a price.

    `interaction` (seconds) is charged in proportion to server traffic times ring traffic; no fit learns it. The class
    satisfies `Simulator`: `fit` scales all prices by one number.
    """

    compute_seconds: float
    byte_seconds: float
    message_seconds: float
    ring_byte_seconds: float
    ring_seconds: float
    interaction: float = 0.0
    scale: float = 1.0

    def seconds(self, model: ModelSpec, strategy: Strategy) -> float:
        sent: dict[str, float] = {}
        messages: dict[str, int] = {}
        rings: dict[int, float] = {}
        for decision in strategy.variables:
            variable = model.by_name[decision.variable]
            rows = variable.shape[decision.partition.axis] if decision.partition else 1
            sizes = shard_sizes(rows, len(decision.shards))
            for size, shard in zip(sizes, decision.shards, strict=True):
                gradient_bytes = variable.bytes * size / rows
                if isinstance(shard, AllReduce):
                    rings[shard.group] = rings.get(shard.group, 0.0) + gradient_bytes
                else:
                    touched = (variable.rows_per_step or 1.0) / variable.shape[0] if variable.sparse else 1.0
                    sent[shard.device] = sent.get(shard.device, 0.0) + gradient_bytes * touched
                    messages[shard.device] = messages.get(shard.device, 0) + 1
        replicas = len(strategy.replicas)
        server = max(
            (2 * replicas * (self.byte_seconds * sent[name] + self.message_seconds * messages[name]) for name in sent),
            default=0.0,
        )
        ring = 2 * self.ring_byte_seconds * sum(rings.values()) + 2 * replicas * self.ring_seconds * len(rings)
        together = (
            self.interaction * sum(sent.values()) * sum(rings.values()) / sum(v.bytes for v in model.variables) ** 2
        )
        return self.scale * (self.compute_seconds + max(server, ring) + 0.3 * min(server, ring) + together)

    def predict(self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]) -> FloatArray:  # noqa: ARG002
        return np.log([self.seconds(model, strategy) for strategy in strategies])

    def fit(self, records: Sequence[RuntimeRecord]) -> None:
        known = replace(self, scale=1.0)
        errors = [
            np.log(record.median_seconds / known.seconds(record.model, record.strategy))
            for record in records
            if record.median_seconds is not None
        ]
        if errors:
            self.scale = float(np.exp(np.median(errors)))


def truth() -> StepLaw:
    return StepLaw(0.05, 1.2e-8, 2e-4, 3e-8, 4e-4, interaction=0.05)


def rough_simulator() -> StepLaw:
    """Return the true law's shape with every number off by a factor of up to two, and no interaction."""
    return StepLaw(0.03, 2e-8, 1e-4, 2e-8, 8e-4)


def timed(space: SearchSpace, proposal: Proposal, law: StepLaw, number: int = 0, noise: float = 0.0) -> RuntimeRecord:
    """Return the record of a trial whose steps take the law's time, with relative `noise`.

    The noise is drawn from the strategy's digest; a re-measurement draws a different noise.
    """
    rng = np.random.default_rng([int(proposal.strategy.digest, 16), number, proposal.purpose == "remeasure"])
    seconds = law.seconds(space.model, proposal.strategy) * np.exp(noise * rng.standard_normal(5))
    return RuntimeRecord(
        model=space.model,
        cluster=space.cluster,
        strategy=proposal.strategy,
        protocol=TimingProtocol(warmup_steps=0, timed_steps=5),
        outcome="ok",
        purpose=proposal.purpose,
        label=proposal.label,
        run="law",
        seed=number,
        started_at=float(number),
        step_seconds=tuple(seconds.tolist()),
        predicted_seconds=proposal.predicted_seconds,
    )
