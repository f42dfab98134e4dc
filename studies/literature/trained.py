"""Trains to a target in this process and in virtual time: gradients are real, passes and exchanges take no real
time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from autosync.baselines import BASELINES
from autosync.race.candidates import compress_dense
from autosync.spec import ClusterSpec, Decision, Discipline, Pace, Strategy, Target, TargetRecord, TopK
from studies.literature.rows import FigureRow
from trials.cluster.racks import star_of
from trials.to_target import TargetRequest

if TYPE_CHECKING:
    from trials.fleet.local_backend import LocalBackend

NODES = 4
PASS_SECONDS = 1.0
"""Seconds of a pass of a whole batch; a pass of more or fewer examples takes time in proportion."""

STEADY = Pace(scale=0.0, numbers="held", batch_seconds=PASS_SECONDS)
STEPS, SECONDS = "steps", "virtual s"


@dataclass(frozen=True)
class World:
    """A task on a cluster of four nodes."""

    task: str
    batch_size: int
    """Examples per replica."""
    paces: tuple[Pace, ...]
    """The pace of each node."""
    exchange_seconds: float
    """Seconds of a dense exchange of all gradients after a pass."""
    injected: float = 0.0
    """The share of a node's examples that is drawn from all nodes' data."""

    @property
    def cluster(self) -> ClusterSpec:
        star = star_of(NODES, 1.0, cores=1.0)
        nodes = zip(star.nodes, self.paces, strict=True)
        return replace(star, nodes=tuple(replace(node, pace=pace) for node, pace in nodes))

    def exchange(self, strategy: Strategy, decision: Decision) -> float:
        """Return the seconds of an exchange, in proportion to the volume sent."""
        fidelity = strategy.discipline.fidelity
        if fidelity is None:
            ratio = next((s.compressor.ratio for _, _, s in strategy.shards() if isinstance(s.compressor, TopK)), 1.0)
        else:
            ratio = fidelity.ratios[decision.ratio or 0]
        return self.exchange_seconds * volume(ratio)


def volume(ratio: float) -> float:
    """Return the volume sent, in gradients. Top-k sends two numbers per value: the value and its index."""
    return 1.0 if ratio >= 1 else min(1.0, 2 * ratio)


@dataclass(frozen=True)
class Arm:
    """A discipline, and the ratio of each gradient that top-k keeps; None without compression."""

    discipline: Discipline
    keeps: float | None = None


@cache
def capture_task(task: str, batch_size: int, injected: float) -> bytes:
    """Capture the task of a `World`, in the form that workers get."""
    from autosync.engine.tensorflow.capture.capturing import capture
    from autosync.engine.tensorflow.capture.profile import profile
    from autosync.engine.tensorflow.loading import load_tensorflow, quiet_log
    from autosync.engine.tensorflow.servers import use_logical_devices

    with quiet_log():
        load_tensorflow()
        use_logical_devices(NODES, NODES)
        from autosync.zoo.digits import build

        return profile(capture(build(task, batch_size, injected))).to_bytes()


def train(world: World, arm: Arm, seed: int, target: Target) -> TargetRecord:
    """Train under the arm's discipline until the target is reached or all steps are done."""
    from trials.fleet.local_backend import LocalBackend

    model = capture_task(world.task, world.batch_size, world.injected)
    backend: LocalBackend = LocalBackend(model, world.cluster, exchange=world.exchange)
    strategy = BASELINES["all_reduce_25mb"](backend.model, backend.cluster)
    if arm.keeps is not None:
        strategy = compress_dense(strategy, backend.model, TopK(arm.keeps))
    request = TargetRequest(replace(strategy, discipline=arm.discipline), target, seed, time_limit_seconds=300.0)
    record = backend.train(request)
    if record.outcome not in ("reached", "not_reached"):
        raise RuntimeError(f"{world.task}, seed {seed}: {record.reason}")
    return record


def to_target(record: TargetRecord) -> float:
    """Return the virtual seconds to the target; infinite if the target was not reached."""
    return record.seconds if record.outcome == "reached" else math.inf


def rows_of_run(cell: str, arm: str, seed: int, figures: Mapping[str, float]) -> list[FigureRow]:
    """Return the figures of a run as rows."""
    return [FigureRow(cell, arm, seed, figure, value, "virtual", "real") for figure, value in figures.items()]
