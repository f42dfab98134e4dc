"""A trial to a target: trains under a strategy until a metric is reached or a limit ends the run."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from autosync.engine.core.contract import Evaluation, Session, TrainingStep
from autosync.engine.core.steps_a_call import calls_of_several, steps_a_call
from autosync.errors import SpecError
from autosync.spec import PLAIN, CurvePoint, Decided, StepReport, Strategy, Target, TargetRecord, strategy_faults
from autosync.spec.codec import Noun
from trials.paced import kept_pace
from trials.trial import TrialSetup, reason_of

SEED_STEPS = 1 << 20
"""The distance between the first synthetic batches of two seeds."""

MOST_SEEDS = (1 << 31) // SEED_STEPS


@dataclass(frozen=True)
class TargetRequest(Noun, what="A request"):
    """One attempt to train under `strategy` until `target` is reached."""

    strategy: Strategy
    target: Target
    seed: int = 0
    """Selects the batches and the durations of paced passes; initial values are the same for all seeds."""
    time_limit_seconds: float = 600.0
    """The time limit of the whole attempt."""
    label: str = "manual"
    """The source of the strategy, in a word."""
    run: str = "manual"
    """The name of the search or race that this attempt belongs to."""
    rival: tuple[CurvePoint, ...] = ()
    """The curve of another run to the target; empty if there is none."""
    give_up: float = 2.0
    """The run is given up when it takes `give_up` times as long as the `rival` to reach the same loss."""

    def __post_init__(self) -> None:
        if not 0 <= self.seed < MOST_SEEDS:
            raise SpecError(f"A seed of training must be from 0 to {MOST_SEEDS - 1}, not {self.seed}.")
        if not 0 < self.time_limit_seconds < math.inf:
            raise SpecError("A trial's time limit must be positive and finite.")
        if not 1 < self.give_up < math.inf:
            raise SpecError(f"A run's give_up must be a finite factor over 1, not {self.give_up:g}.")

    def record(self, stage: TrialSetup, started_at: float, outcome: str, **measured: Any) -> TargetRecord:
        """Return the record of the attempt on `stage`, with the `measured` fields."""
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
            framework=stage.environment.framework,
            **measured,
        )


@dataclass
class _Measured:
    """The measurements of a run so far, which are kept however the run ends."""

    curve: list[CurvePoint] = field(default_factory=list)
    step_seconds: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    reports: list[StepReport] = field(default_factory=list)
    controller_seconds: float = 0.0
    pace: Any = None
    behind: float | None = None


class _RunEnd(Exception):  # noqa: N818 - not an error, but the end of a run with its outcome
    def __init__(self, outcome: str, reason: str) -> None:
        super().__init__(reason)
        self.outcome = outcome
        self.reason = reason


def run_to_target(session: Session, request: TargetRequest, stage: TrialSetup) -> TargetRecord:
    """Train until the target is reached. A strategy that fails gives a record with a reason, never an exception.

    The gradients of `session` are real. A warm-up step runs first, so that tracing is not timed. Evaluations are not
    timed either; during an evaluation, replicas that a step did not wait for finish their pass.
    """
    started_at, begin = time.time(), time.perf_counter()
    measured, outcome, reason = _Measured(), "reached", ""
    try:
        _train(session, request, begin, measured)
    except _RunEnd as ended:
        outcome, reason = ended.outcome, ended.reason
    except Exception as error:  # an engine's error about a strategy or a dead worker is the run's result
        outcome, reason = "failed", reason_of(error)
    arrivals = [report.arrivals for report in measured.reports if report.arrivals]
    return request.record(
        stage,
        started_at,
        outcome,
        reason=reason,
        total_seconds=time.perf_counter() - begin,
        curve=tuple(measured.curve),
        step_seconds=tuple(measured.step_seconds),
        losses=tuple(measured.losses),
        met=sum(report.met for report in measured.reports) if measured.reports else len(measured.step_seconds),
        counted=_gradient_counts(request.strategy, measured, arrivals),
        controller_seconds=measured.controller_seconds,
        pace=measured.pace,
        decided=_decisions(request.strategy, measured.reports),
        behind=measured.behind,
    )


def _train(session: Session, request: TargetRequest, begin: float, measured: _Measured) -> None:
    fault = next(strategy_faults(request.strategy, session.model, session.cluster), None)
    if fault:
        raise _RunEnd("failed", fault)
    evaluation = session.evaluation(len(request.strategy.replicas))
    with closing(session.realize(request.strategy)) as step:
        step.seed = request.seed
        count = _warm_up(step, request)
        warmed_up = len(step.taken)
        end: _RunEnd | None = None
        try:
            _follow(step, count, request, begin, evaluation, measured)
        except _RunEnd as early:
            end = early
        finally:
            measured.controller_seconds = step.controller_seconds
            is_virtual = session.exchange is not None
            measured.pace = kept_pace(step, session.cluster, warmed_up, len(measured.step_seconds), is_virtual)
        if measured.pace is not None and measured.pace.fault:
            raise _RunEnd("failed", measured.pace.fault)
        if end is not None:
            raise end


def _warm_up(step: TrainingStep, request: TargetRequest) -> int:
    """Let `step` trace everything it will need, and reset it to its initial state; return the number of steps of a
    call.
    """
    start, count = step.state(), 1
    step.warm_up()
    if several := calls_of_several(step):
        before = step.clock()
        step()
        count = steps_a_call(step.clock() - before, request.target.every)
        if count > 1:
            several.several(count)
    step.load(replace(start, replica_steps=tuple(request.seed * SEED_STEPS for _ in start.replica_steps)))
    return count


def _follow(
    step: TrainingStep, count: int, request: TargetRequest, begin: float, evaluation: Evaluation, measured: _Measured
) -> None:
    """Take steps, `count` a call, and evaluate the metric every `target.every` steps, until the target is reached."""
    target = request.target
    while True:
        done = len(measured.step_seconds)
        if done % target.every == 0 or done == target.steps:
            state = step.state()
            value = evaluation.loss(state.values, state.replica_state[0])
            if not math.isfinite(value):
                raise _RunEnd("failed", f"The loss is {value} after {done} steps; training has diverged.")
            measured.curve.append(CurvePoint(done, sum(measured.step_seconds), value))
            if value <= target.threshold:
                return
            measured.behind = _behind(measured.curve, request.rival)
            if measured.behind is not None and measured.behind > request.give_up:
                raise _RunEnd(
                    "not_reached", f"Given up: it took {measured.behind:.1f} times as long as another run to this loss."
                )
            measured.behind = None
        if done == target.steps:
            raise _RunEnd("not_reached", f"After all {done} steps the loss is {measured.curve[-1].value:.4g}.")
        if time.perf_counter() - begin > request.time_limit_seconds:
            raise _RunEnd("timed_out", f"The run's {request.time_limit_seconds:g} s were over after {done} steps.")
        several = calls_of_several(step) if 1 < count <= target.steps - done else None
        before = step.clock()
        losses = [step()] if several is None else several.several(count)
        seconds = (step.clock() - before) / len(losses)
        for loss in losses:
            if not math.isfinite(loss):
                raise _RunEnd("failed", f"The loss is {loss} at step {done}; training has diverged.")
            done += 1
        measured.step_seconds += [seconds] * len(losses)
        measured.losses += losses
        if step.report is not None:
            measured.reports.append(step.report)


def _behind(curve: Sequence[CurvePoint], rival: Sequence[CurvePoint]) -> float | None:
    """Return the run's time to the lowest loss of its `curve` over the `rival`'s time to that loss; None if unknown.

    The ratio is unknown before a tenth of the rival's time, because early curves have few points.
    """
    least, seconds = min(point.value for point in curve), curve[-1].seconds
    if not rival or seconds < rival[-1].seconds / 10:
        return None
    rival_seconds = next((point.seconds for point in rival if point.value <= least), rival[-1].seconds)
    return seconds / max(rival_seconds, rival[-1].seconds / 10)


def _decisions(strategy: Strategy, reports: Sequence[StepReport]) -> Decided | None:
    """Return the controller's decisions in each step; fields that the discipline does not leave open are empty."""
    discipline = strategy.discipline
    if not reports or discipline == PLAIN:
        return None
    fidelity = discipline.fidelity
    ratios = fidelity.ratios if fidelity else ()
    switches = fidelity is not None and fidelity.transports is not None
    return Decided(
        tuple(sum(arrival is not None for arrival in report.arrivals) for report in reports)
        if discipline.waits
        else (),
        tuple(ratios[report.decision.ratio or 0] for report in reports) if ratios else (),
        tuple(report.decision.transport or 0 for report in reports) if switches else (),
        tuple(int(report.met) for report in reports) if discipline.rhythm else (),
        tuple(max(report.decision.loads or (0.0,)) for report in reports) if discipline.loads else (),
    )


def _gradient_counts(
    strategy: Strategy, measured: _Measured, arrivals: Sequence[Sequence[float | None]]
) -> tuple[int, ...]:
    """Return the number of steps in which each replica's gradient counted."""
    if not arrivals:
        return (len(measured.step_seconds),) * len(strategy.replicas)
    return tuple(
        int(count) for count in np.sum([[arrival is not None for arrival in step] for step in arrivals], axis=0)
    )
