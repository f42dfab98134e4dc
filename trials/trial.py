"""One trial: the request, the setup it runs on, and its run to a record, stopped early if clearly slow."""

from __future__ import annotations

import math
import statistics
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from autosync.engine.core.registry import engine_named
from autosync.engine.core.steps_a_call import calls_of_several, steps_a_call
from autosync.spec import (
    ClusterSpec,
    KeptPace,
    ModelSpec,
    RuntimeRecord,
    Strategy,
    TimingProtocol,
    median_interval,
    step_time_fault,
    strategy_faults,
)
from autosync.spec.codec import Noun
from trials.clock import Clock, Environment
from trials.paced import PacedRunning, kept_pace
from trials.phases import phases_here


@dataclass(frozen=True)
class TrialRequest(Noun, what="A request", always=("best_median_seconds", "predicted_seconds")):
    """One attempt to time `strategy` under `protocol`."""

    strategy: Strategy
    protocol: TimingProtocol = field(default_factory=TimingProtocol)
    purpose: str = "manual"
    """The part of a search that the trial belongs to, such as "baseline"."""
    label: str = "manual"
    """The source of the strategy, in a word."""
    run: str = "manual"
    """The name of the search that the trial belongs to."""
    seed: int = 0
    best_median_seconds: float | None = None
    """The best step time so far; a slow trial is stopped early by comparison with it. None: never stop."""
    best_when: str = "so far"
    """Follows "the best" in messages, to say which trials the best is chosen from."""
    predicted_seconds: float | None = None
    """The step time that the simulator predicted; None without a prediction."""

    @property
    def time_limit_seconds(self) -> float:
        return self.protocol.time_limit_seconds

    def record(self, stage: TrialSetup, started_at: float, outcome: str, **measured: Any) -> RuntimeRecord:
        """Return the record of the attempt on `stage`, with the `measured` fields."""
        return RuntimeRecord(
            model=stage.model,
            cluster=stage.cluster,
            strategy=self.strategy,
            protocol=self.protocol,
            outcome=outcome,
            purpose=self.purpose,
            label=self.label,
            run=self.run,
            seed=self.seed,
            started_at=started_at,
            predicted_seconds=self.predicted_seconds,
            host=stage.environment.host,
            versions=stage.environment.versions,
            framework=stage.environment.framework,
            **measured,
        )


LONGEST = 300
"""The largest number of characters of an error's text in a reason."""


def reason_of(error: BaseException) -> str:
    """Return the error's type and the most informative line of its text, short enough for a table."""
    return f"{type(error).__name__}: {engine_named().message_of(error)[:LONGEST]}"


class RunningStep(Protocol):
    """A running strategy; each call takes one step and returns its mean loss."""

    def __call__(self) -> float: ...

    def close(self) -> None:
        """End everything that runs between calls."""
        ...


@runtime_checkable
class RunsAhead(Protocol):
    """A running strategy whose replicas may begin the next step before the caller asks for it."""

    def expect_steps(self, count: int) -> None:
        """Announce `count` further steps."""
        ...


class Realizer(Protocol):
    """A source of running steps; an engine's `Session` is one."""

    def realize(self, strategy: Strategy) -> RunningStep:
        """Return the running step, which the caller must close. Raises for a strategy that cannot be run."""
        ...


@dataclass(frozen=True)
class TrialSetup:
    """The constants of a series of trials: the model, the cluster, the clock and the environment."""

    model: ModelSpec
    cluster: ClusterSpec
    clock: Clock
    environment: Environment = field(default_factory=Environment)


CLEARLY_SLOW, CLEAR_STEPS = 1.5, 3
"""A strategy is clearly slow if each of the `CLEAR_STEPS` steps after the first warm-up step takes more than
`CLEARLY_SLOW` times the limit.

The limit is the largest median that would not stop the trial. The remaining warm-up steps would only cost time.
"""


@dataclass
class _Measured:
    """The measurements of a trial so far, which its record holds however the trial ends."""

    warmup_steps: int
    """The number of entries at the start of `taken` that are not timings."""
    setup_seconds: float = 0.0
    final_loss: float | None = None
    pace: KeptPace | None = None
    taken: list[float] = field(default_factory=list)
    """Seconds of each step, warm-up steps included."""
    began: list[float] = field(default_factory=list)
    """The start of each of these steps, in seconds from the start of the trial."""
    steps_a_call: int = 1
    """The number of steps of each timed call, which have equal shares of the call's seconds."""

    @property
    def steps_before_timing(self) -> int:
        """The number of steps before the timed ones, with the first step and the first call of several, which trace."""
        return 1 + self.warmup_steps + (self.steps_a_call if self.steps_a_call > 1 else 0)

    @property
    def step_seconds(self) -> list[float]:
        """Seconds of the timed steps."""
        return self.taken[self.warmup_steps :]

    @property
    def call_seconds(self) -> list[float]:
        """Seconds a step of each timed call; these are independent figures, and the steps of a call are not."""
        return self.step_seconds[:: self.steps_a_call]


class _TrialEnd(Exception):  # noqa: N818 - not an error, but the early end of a trial with its outcome
    def __init__(self, outcome: str, reason: str) -> None:
        super().__init__(reason)
        self.outcome = outcome
        self.reason = reason


def run_trial(realizer: Realizer, request: TrialRequest, stage: TrialSetup) -> RuntimeRecord:
    """Time `request.strategy`. A strategy that fails gives a record with a reason, never an exception.

    The first step, which traces the function, counts as setup. Warm-up steps follow, whose times are discarded, and
    then the timed steps, which are all kept. If steps overlap with the next forward pass, a timed call takes several
    steps, and one more such call, which traces it, comes first.
    """
    clock = stage.clock
    clock.start_trial(request.strategy.digest)
    started_at, begin = clock.timestamp(), clock.now()
    measured, outcome, reason = _Measured(request.protocol.warmup_steps), "ok", ""
    try:
        _measure(realizer, request, stage, begin, measured)
    except _TrialEnd as ended:
        outcome, reason = ended.outcome, ended.reason
    except Exception as error:  # an engine's error about a strategy or a dead worker is the trial's result
        outcome, reason = "failed", reason_of(error)
    return request.record(
        stage,
        started_at,
        outcome,
        reason=reason,
        setup_seconds=measured.setup_seconds,
        total_seconds=clock.now() - begin,
        step_seconds=tuple(measured.step_seconds),
        final_loss=measured.final_loss,
        pace=measured.pace,
        phases=phases_here(stage.cluster, [started_at + began for began in measured.began[measured.warmup_steps :]]),
    )


def _measure(realizer: Realizer, request: TrialRequest, stage: TrialSetup, begin: float, measured: _Measured) -> None:
    strategy = request.strategy
    fault = step_time_fault(strategy) or next(strategy_faults(strategy, stage.model, stage.cluster), None)
    if fault:
        raise _TrialEnd("failed", fault)
    with closing(realizer.realize(strategy)) as step:
        if not isinstance(step, PacedRunning):
            _time_steps(step, request, stage.clock, begin, measured)
            return
        step.seed = request.seed
        stop: _TrialEnd | None = None
        try:
            _time_steps(step, request, stage.clock, begin, measured)
        except _TrialEnd as ended:
            stop = ended
        measured.pace = kept_pace(step, stage.cluster, measured.steps_before_timing, len(measured.step_seconds))
        if measured.pace is not None and measured.pace.fault:
            raise _TrialEnd("failed", measured.pace.fault)
        if stop is not None:
            raise stop


def _time_steps(step: RunningStep, request: TrialRequest, clock: Clock, begin: float, measured: _Measured) -> None:
    protocol = request.protocol
    if isinstance(step, RunsAhead):
        step.expect_steps(1 + protocol.warmup_steps + protocol.timed_steps)
    _run_steps(step, 0, measured)
    measured.setup_seconds = clock.now() - begin
    number, last = 1, protocol.warmup_steps + protocol.timed_steps
    while number <= last:
        before = clock.now()
        if len(measured.taken) < len(measured.began):  # a warm-up step ends when the next step begins
            measured.taken.append(before - begin - measured.began[-1])
            _stop_if_clearly_slow(request, measured)
        if before - begin > protocol.time_limit_seconds:
            raise _TrialEnd(
                "timed_out",
                f"The trial's {protocol.time_limit_seconds:g} s were over after {number - 1} of {last} steps.",
            )
        if number <= protocol.warmup_steps:
            _run_steps(step, number, measured)
            measured.began.append(before - begin)
            number += 1
            continue
        if number == protocol.warmup_steps + 1 and calls_of_several(step):
            measured.steps_a_call = steps_a_call(
                statistics.median(measured.taken or [measured.setup_seconds]), protocol.timed_steps
            )
            if measured.steps_a_call > 1:
                _run_steps(step, number, measured)
                before = clock.now()
        _run_steps(step, number, measured)
        seconds = (clock.now() - before) / measured.steps_a_call
        measured.began += [before - begin + place * seconds for place in range(measured.steps_a_call)]
        measured.taken += [seconds] * measured.steps_a_call
        number += measured.steps_a_call
        _stop_if_clearly_slow(request, measured)
        _stop_if_slow(request, measured)


def _run_steps(step: RunningStep, number: int, measured: _Measured) -> None:
    """Take a step, or the steps of a timed call; `number` is that of the first."""
    several = calls_of_several(step) if measured.steps_a_call > 1 else None
    losses = [step()] if several is None else several.several(measured.steps_a_call)
    for at, loss in enumerate(losses, number):
        if not math.isfinite(loss):
            raise _TrialEnd("failed", f"The loss is {loss} at step {at}; a trial must keep its loss finite.")
        measured.final_loss = loss


def _stop_if_clearly_slow(request: TrialRequest, measured: _Measured) -> None:
    """Stop if the steps after the first warm-up step are all clearly slow, and count these steps as timed."""
    best, protocol = request.best_median_seconds, request.protocol
    first = min(1, protocol.warmup_steps)
    if (
        best is None
        or measured.steps_a_call > 1
        or len(measured.taken) != first + CLEAR_STEPS
        or protocol.timed_steps <= CLEAR_STEPS
    ):
        return
    if min(measured.taken[first:]) > CLEARLY_SLOW * protocol.stop_factor * best:
        measured.warmup_steps = first
        raise _early_stop(request, measured.step_seconds, best)


def _stop_if_slow(request: TrialRequest, measured: _Measured) -> None:
    """Stop if the lower end of the median's interval is over `stop_factor` times the best median."""
    best, protocol, timed = request.best_median_seconds, request.protocol, len(measured.step_seconds)
    if best is None or timed < protocol.check_after or timed == protocol.timed_steps:
        return
    least, _ = median_interval(measured.call_seconds)
    if least > protocol.stop_factor * best:
        raise _early_stop(request, measured.step_seconds, best)


def _early_stop(request: TrialRequest, step_seconds: list[float], best: float) -> _TrialEnd:
    median = statistics.median(step_seconds)
    whose = "best baseline" if request.purpose == "baseline" else "best"
    return _TrialEnd(
        "stopped",
        f"After {len(step_seconds)} timed steps the median of {median * 1e3:.1f} ms is surely over "
        f"{request.protocol.stop_factor:g} x the {whose} {request.best_when}, {best * 1e3:.1f} ms.",
    )
