"""A trial to a target: training under a strategy until a metric is reached, or patience ends."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from autosync.errors import SpecError
from autosync.spec import PLAIN, CurvePoint, Decided, StepReport, Strategy, Target, TargetRecord, strategy_faults
from autosync.spec.codec import Noun
from trials.paced import PacedRunning, kept_pace
from trials.trial import Stage, reason_of

if TYPE_CHECKING:
    from autosync.engine.step.realize import Session

SEED_STEPS = 1 << 20
"""Synthetic batches that lie between the first ones of two seeds."""

MOST_SEEDS = (1 << 31) // SEED_STEPS


@dataclass(frozen=True)
class TargetRequest(Noun, what="A request"):
    """One attempt to train under `strategy` until `target` is reached, within a time limit for all of it.

    `seed` decides which batches are drawn, and how long paced passes take; initial values are the same for all. It is
    given up once it has taken `give_up` times as long to a loss as the `rival`, the curve of another run to the target.
    """

    strategy: Strategy
    target: Target
    seed: int = 0
    time_limit_seconds: float = 600.0
    label: str = "manual"
    run: str = "manual"
    rival: tuple[CurvePoint, ...] = ()
    give_up: float = 2.0

    def __post_init__(self) -> None:
        if not 0 <= self.seed < MOST_SEEDS:
            raise SpecError(f"A seed of training is from 0 to {MOST_SEEDS - 1}, not {self.seed}.")
        if not 0 < self.time_limit_seconds < math.inf:
            raise SpecError("A trial's time limit must be positive and finite.")
        if not 1 < self.give_up < math.inf:
            raise SpecError(f"A run is given up when it takes over 1 times as long, not {self.give_up:g} times.")

    def record(self, stage: Stage, started_at: float, outcome: str, **found: Any) -> TargetRecord:
        """The record of the attempt on `stage`, with what was found."""
        return TargetRecord(
            model=stage.model,
            cluster=stage.cluster.with_real_gradients,
            strategy=self.strategy,
            target=self.target,
            outcome=outcome,
            seed=self.seed,
            started_at=started_at,
            label=self.label,
            run=self.run,
            host=stage.environment.host,
            versions=stage.environment.versions,
            **found,
        )


@dataclass
class _Found:
    """What a run has found so far; it is kept whatever happens next."""

    curve: list[CurvePoint] = field(default_factory=list)
    step_seconds: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    reports: list[StepReport] = field(default_factory=list)
    controller_seconds: float = 0.0
    pace: Any = None
    behind: float | None = None


class _Ended(Exception):  # noqa: N818 - not an error: the way a run ends, with its outcome
    def __init__(self, outcome: str, reason: str) -> None:
        super().__init__(reason)
        self.outcome = outcome
        self.reason = reason


def run_to_target(session: Session, request: TargetRequest, stage: Stage) -> TargetRecord:
    """Train until the target is reached. Never raises for what the strategy does: that is a record with a reason.

    The gradients of `session` are real. A step is taken for nothing first, so that what is built once counts to none.
    Looking at the metric takes no time of the run's; meanwhile replicas that a step did not wait for finish their pass.
    """
    started_at, begin = time.time(), time.perf_counter()
    found, outcome, reason = _Found(), "reached", ""
    try:
        _train(session, request, begin, found)
    except _Ended as ended:
        outcome, reason = ended.outcome, ended.reason
    except Exception as error:  # whatever TensorFlow says about a strategy or a dead worker is the run's result
        outcome, reason = "failed", reason_of(error)
    arrivals = [report.arrivals for report in found.reports if report.arrivals]
    return request.record(
        stage,
        started_at,
        outcome,
        reason=reason,
        total_seconds=time.perf_counter() - begin,
        curve=tuple(found.curve),
        step_seconds=tuple(found.step_seconds),
        losses=tuple(found.losses),
        met=sum(each.met for each in found.reports) if found.reports else len(found.step_seconds),
        counted=_counted(request.strategy, found, arrivals),
        controller_seconds=found.controller_seconds,
        pace=found.pace,
        decided=_decided(request.strategy, found.reports),
        behind=found.behind,
    )


def _train(session: Session, request: TargetRequest, begin: float, found: _Found) -> None:
    fault = next(strategy_faults(request.strategy, session.model, session.cluster), None)
    if fault:
        raise _Ended("failed", fault)
    evaluation = session.evaluation(len(request.strategy.replicas))
    with closing(session.realize(request.strategy)) as step:
        paced = step if session.cluster.paced and isinstance(step, PacedRunning) else None
        if paced:
            paced.seed = request.seed
        _warm_up(step, request.seed)
        warmed_up = len(paced.taken) if paced else 0
        ended: _Ended | None = None
        try:
            clock = getattr(step, "clock", time.perf_counter)
            _follow(step, request, begin, evaluation, found, clock)
        except _Ended as early:
            ended = early
        finally:
            found.controller_seconds = getattr(step, "controller_seconds", 0.0)
            if paced:
                is_virtual = session.exchange is not None
                found.pace = kept_pace(paced, session.cluster, warmed_up, len(found.step_seconds), is_virtual)
        if found.pace is not None and found.pace.fault:
            raise _Ended("failed", found.pace.fault)
        if ended is not None:
            raise ended


def _warm_up(step: Any, seed: int) -> None:
    """Let `step` build all that it is going to need, and go back to its beginning."""
    start = step.state()
    if hasattr(step, "warm_up"):
        step.warm_up()
    else:
        step()
    step.load(replace(start, replica_steps=tuple(seed * SEED_STEPS for _ in start.replica_steps)))


def _follow(
    step: Any,
    request: TargetRequest,
    begin: float,
    evaluation: Any,
    found: _Found,
    clock: Callable[[], float],
) -> None:
    """Take steps, and look at the metric every now and then, until it is reached."""
    target = request.target
    while True:
        done = len(found.step_seconds)
        if done % target.every == 0 or done == target.steps:
            state = step.state()
            value = evaluation.loss(state.values, state.replica_state[0])
            if not math.isfinite(value):
                raise _Ended("failed", f"The loss is {value} after {done} steps; training has diverged.")
            found.curve.append(CurvePoint(done, sum(found.step_seconds), value))
            if value <= target.threshold:
                return
            found.behind = _behind(found.curve, request.rival)
            if found.behind is not None and found.behind > request.give_up:
                raise _Ended("not_reached", f"Given up {found.behind:.1f} times as late as another run at this loss.")
            found.behind = None
        if done == target.steps:
            raise _Ended("not_reached", f"After all {done} steps the loss is {found.curve[-1].value:.4g}.")
        if time.perf_counter() - begin > request.time_limit_seconds:
            raise _Ended("timed_out", f"The run's {request.time_limit_seconds:g} s were over after {done} steps.")
        before = clock()
        loss = step()
        seconds = clock() - before
        if not math.isfinite(loss):
            raise _Ended("failed", f"The loss is {loss} at step {done}; training has diverged.")
        found.step_seconds.append(seconds)
        found.losses.append(loss)
        if (report := getattr(step, "report", None)) is not None:
            found.reports.append(report)


def _behind(curve: Sequence[CurvePoint], rival: Sequence[CurvePoint]) -> float | None:
    """How many times as long as the `rival` a run has taken to the least loss of its `curve`, if that can be told.

    Not before a tenth of the rival's time: at first curves are of a few steps.
    """
    least, seconds = min(each.value for each in curve), curve[-1].seconds
    if not rival or seconds < rival[-1].seconds / 10:
        return None
    there = next((each.seconds for each in rival if each.value <= least), rival[-1].seconds)
    return seconds / max(there, rival[-1].seconds / 10)


def _decided(strategy: Strategy, reports: Sequence[StepReport]) -> Decided | None:
    """What was decided in each step, of what there is to decide."""
    discipline = strategy.discipline
    if not reports or discipline == PLAIN:
        return None
    fidelity = discipline.fidelity
    ratios = fidelity.ratios if fidelity else ()
    switches = fidelity is not None and fidelity.transports is not None
    return Decided(
        tuple(sum(each is not None for each in report.arrivals) for report in reports) if discipline.waits else (),
        tuple(ratios[report.decision.ratio or 0] for report in reports) if ratios else (),
        tuple(report.decision.transport or 0 for report in reports) if switches else (),
        tuple(int(report.met) for report in reports) if discipline.rhythm else (),
        tuple(max(report.decision.loads or (0.0,)) for report in reports) if discipline.loads else (),
    )


def _counted(strategy: Strategy, found: _Found, arrivals: Sequence[Sequence[float | None]]) -> tuple[int, ...]:
    """In how many steps each replica's gradient counted."""
    if not arrivals:
        return (len(found.step_seconds),) * len(strategy.replicas)
    return tuple(int(each) for each in np.sum([[one is not None for one in step] for step in arrivals], axis=0))
