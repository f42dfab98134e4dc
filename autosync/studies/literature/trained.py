"""Training to a target in this process, in virtual time: gradients are real, no pass or exchange is waited for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from autosync.baselines import BASELINES
from autosync.race.candidates import compressed
from autosync.spec import ClusterSpec, Decision, Discipline, Pace, Strategy, Target, TargetRecord, TopK
from autosync.studies.literature.rows import Row
from trials.cluster.racks import star_of
from trials.to_target import TargetRequest

if TYPE_CHECKING:
    from trials.fleet.here import LocalBackend

NODES = 4
PASS_SECONDS = 1.0
"""What a pass of a whole batch takes; of more or fewer examples in proportion."""

STEADY = Pace(scale=0.0, numbers="held", batch_seconds=PASS_SECONDS)
STEPS, SECONDS = "steps", "virtual s"


@dataclass(frozen=True)
class World:
    """A task of so many examples a replica, on four nodes with these paces; `exchange_seconds` is what a dense exchange
    of all takes after a pass. A share of the examples is `injected` from all nodes' data.
    """

    task: str
    batch_size: int
    paces: tuple[Pace, ...]
    exchange_seconds: float
    injected: float = 0.0

    @property
    def cluster(self) -> ClusterSpec:
        star = star_of(NODES, 1.0, cores=1.0)
        nodes = zip(star.nodes, self.paces, strict=True)
        return replace(star, nodes=tuple(replace(node, pace=pace) for node, pace in nodes))

    def exchange(self, strategy: Strategy, decision: Decision) -> float:
        """Seconds of an exchange: in proportion to what is sent, which is twice a value for what top-k keeps."""
        fidelity = strategy.discipline.fidelity
        if fidelity is None:
            ratio = next((s.compressor.ratio for _, _, s in strategy.shards() if isinstance(s.compressor, TopK)), 1.0)
        else:
            ratio = fidelity.ratios[decision.ratio or 0]
        return self.exchange_seconds * volume(ratio)


def volume(ratio: float) -> float:
    """What is sent of a gradient, in gradients: values and their places; all of it goes without places."""
    return 1.0 if ratio >= 1 else min(1.0, 2 * ratio)


@dataclass(frozen=True)
class Arm:
    """A discipline, and what top-k keeps of every gradient if anything is left out at all."""

    discipline: Discipline
    keeps: float | None = None


@cache
def captured(task: str, batch_size: int, injected: float) -> bytes:
    """The task as of `World`, as a worker gets it."""
    from autosync.engine.capture.capturing import capture
    from autosync.engine.capture.profile import profiled
    from autosync.engine.loading import load_tensorflow, quiet_log
    from autosync.engine.servers import use_logical_devices

    with quiet_log():
        load_tensorflow()
        use_logical_devices(NODES, NODES)
        from autosync.engine.zoo.digits import build

        return profiled(capture(build(task, batch_size, injected))).to_bytes()


def trained(world: World, arm: Arm, seed: int, target: Target) -> TargetRecord:
    """Train under the arm's discipline until the target is reached, or all steps are done."""
    from trials.fleet.here import LocalBackend

    model = captured(world.task, world.batch_size, world.injected)
    backend: LocalBackend = LocalBackend(model, world.cluster, exchange=world.exchange)
    strategy = BASELINES["all_reduce_25mb"](backend.model, backend.cluster)
    if arm.keeps is not None:
        strategy = compressed(strategy, backend.model, TopK(arm.keeps))
    request = TargetRequest(replace(strategy, discipline=arm.discipline), target, seed, time_limit_seconds=300.0)
    record = backend.train(request)
    if record.outcome not in ("reached", "not_reached"):
        raise RuntimeError(f"{world.task}, seed {seed}: {record.reason}")
    return record


def to_target(record: TargetRecord) -> float:
    """The virtual seconds to the target; infinite where it was not reached."""
    return record.seconds if record.outcome == "reached" else math.inf


def rows_of_run(cell: str, arm: str, seed: int, figures: Mapping[str, float]) -> list[Row]:
    """The figures of a run as rows."""
    return [Row(cell, arm, seed, figure, value, "virtual", "real") for figure, value in figures.items()]
