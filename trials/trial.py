"""One trial: the request for it, the stage it runs on, and its run to a record, stopped early if surely slow."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Protocol

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
    """One attempt to time `strategy` under `protocol`.

    `best_median_seconds` is the best step time so far, against which a slow trial is stopped early (None: never stop);
    `best_when` says after "the best" which trials that is the best of.
    `label` says in a word where the strategy comes from; `run` names the search it belongs to.
    """

    strategy: Strategy
    protocol: TimingProtocol = field(default_factory=TimingProtocol)
    purpose: str = "manual"
    label: str = "manual"
    run: str = "manual"
    seed: int = 0
    best_median_seconds: float | None = None
    best_when: str = "so far"
    predicted_seconds: float | None = None

    @property
    def time_limit_seconds(self) -> float:
        return self.protocol.time_limit_seconds

    def record(self, stage: Stage, started_at: float, outcome: str, **measured: Any) -> RuntimeRecord:
        """The record of the attempt on `stage`, with whatever was measured."""
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
            **measured,
        )


LONGEST = 300

_EMPTY_TALK = re.compile(
    r"""Graph\ execution\ error:$     # TensorFlow opens with where an error was met, which for a function
    |Detected\ at\ node\b            # made from a graph is a name nobody gave
    |File\ "|<stack\ traces\ unavailable>
    |\d+\ root\ error\(s\)\ found""",
    re.VERBOSE,
)
_ROOT = re.compile(r"\(\d+\) (?P<code>[A-Z_]+): +(?P<message>.*)")
_DECORATION = re.compile(r"\{\{function_node [^}]*\}\} ?| *\[Op:[^\]]*\].*$")


def reason_of(error: BaseException) -> str:
    """The error's kind and what it says, in one line short enough for a table.

    Of several root errors that TensorFlow lists, that is the first that is not the cancelling which follows another.
    """
    lines = [line.strip() for line in str(error).splitlines()]
    telling = [line for line in lines if line and not _EMPTY_TALK.match(line)]
    message = _first_root(telling) or (telling[0] if telling else "no message")
    return f"{type(error).__name__}: {_DECORATION.sub('', message)[:LONGEST]}"


def _first_root(lines: list[str]) -> str:
    roots = [found for line in lines if (found := _ROOT.match(line))]
    causes = [root for root in roots if root["code"] != "CANCELLED"] or roots
    return causes[0]["message"] if causes else ""


class RunningStep(Protocol):
    """A strategy at work; each call is one more step and gives its mean loss."""

    def __call__(self) -> float: ...

    def close(self) -> None:
        """End whatever goes on between calls."""
        ...


class Realizer(Protocol):
    """What turns a strategy into a running step; `autosync.engine.step.realize.Session` is one."""

    def realize(self, strategy: Strategy) -> RunningStep:
        """The running step, which must be closed. Raises for a strategy that cannot be run."""
        ...


@dataclass(frozen=True)
class Stage:
    """What stays the same from trial to trial: the model, the cluster, the clock and where this is."""

    model: ModelSpec
    cluster: ClusterSpec
    clock: Clock
    environment: Environment = field(default_factory=Environment)


CLEARLY, CLEAR_STEPS = 1.5, 3
"""A strategy is clearly slow if so many steps after the first warm-up step each take over `CLEARLY` times what its
median may take. Its remaining warm-up steps would only cost time."""


@dataclass
class _Measured:
    """The measurements of a trial so far, which its record holds however the trial ends."""

    warmup_steps: int
    """The first of `taken`, which are no timings."""
    setup_seconds: float = 0.0
    final_loss: float | None = None
    pace: KeptPace | None = None
    taken: list[float] = field(default_factory=list)
    """Seconds of each step, warm-up steps included."""
    began: list[float] = field(default_factory=list)
    """When each of these steps began, in seconds from the beginning of the trial."""

    @property
    def step_seconds(self) -> list[float]:
        """Seconds of the timed steps."""
        return self.taken[self.warmup_steps :]


class _Ended(Exception):  # noqa: N818 - not an error: the way a trial ends early, with its outcome
    def __init__(self, outcome: str, reason: str) -> None:
        super().__init__(reason)
        self.outcome = outcome
        self.reason = reason


def run_trial(realizer: Realizer, request: TrialRequest, stage: Stage) -> RuntimeRecord:
    """Time `request.strategy`. Never raises for what the strategy does: that is a record with a reason.

    The first step, which builds the function, counts as setup. Then come the warm-up steps, which are thrown away,
    and the timed ones, which are all kept.
    """
    clock = stage.clock
    clock.start_trial(request.strategy.digest)
    started_at, begin = clock.timestamp(), clock.now()
    measured, outcome, reason = _Measured(request.protocol.warmup_steps), "ok", ""
    try:
        _measure(realizer, request, stage, begin, measured)
    except _Ended as ended:
        outcome, reason = ended.outcome, ended.reason
    except Exception as error:  # whatever TensorFlow says about a strategy or a dead worker is the trial's result
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


def _measure(realizer: Realizer, request: TrialRequest, stage: Stage, begin: float, measured: _Measured) -> None:
    strategy = request.strategy
    fault = step_time_fault(strategy) or next(strategy_faults(strategy, stage.model, stage.cluster), None)
    if fault:
        raise _Ended("failed", fault)
    with closing(realizer.realize(strategy)) as step:
        if not isinstance(step, PacedRunning):
            _time_steps(step, request, stage.clock, begin, measured)
            return
        step.seed = request.seed
        stopped: _Ended | None = None
        try:
            _time_steps(step, request, stage.clock, begin, measured)
        except _Ended as ended:
            stopped = ended
        measured.pace = kept_pace(step, stage.cluster, measured.warmup_steps + 1, len(measured.step_seconds))
        if measured.pace is not None and measured.pace.fault:
            raise _Ended("failed", measured.pace.fault)
        if stopped is not None:
            raise stopped


def _time_steps(step: RunningStep, request: TrialRequest, clock: Clock, begin: float, measured: _Measured) -> None:
    protocol = request.protocol
    _run_step(step, 0, measured)
    measured.setup_seconds = clock.now() - begin
    for number in range(1, protocol.warmup_steps + protocol.timed_steps + 1):
        before = clock.now()
        if len(measured.taken) < len(measured.began):  # a warm-up step ends as the next step begins
            measured.taken.append(before - begin - measured.began[-1])
            _stop_if_clearly_slow(request, measured)
        if before - begin > protocol.time_limit_seconds:
            raise _Ended(
                "timed_out",
                f"The trial's {protocol.time_limit_seconds:g} s were over after {number - 1} of "
                f"{protocol.warmup_steps + protocol.timed_steps} steps.",
            )
        _run_step(step, number, measured)
        measured.began.append(before - begin)
        if number > protocol.warmup_steps:
            measured.taken.append(clock.now() - before)
            _stop_if_clearly_slow(request, measured)
            _stop_if_slow(request, measured)


def _run_step(step: Callable[[], float], number: int, measured: _Measured) -> None:
    loss = step()
    if not math.isfinite(loss):
        raise _Ended("failed", f"The loss is {loss} at step {number}; a trial must keep its loss finite.")
    measured.final_loss = loss


def _stop_if_clearly_slow(request: TrialRequest, measured: _Measured) -> None:
    """Stop a strategy whose first steps after the first warm-up step are all clearly slow, and count these as timed."""
    best, protocol = request.best_median_seconds, request.protocol
    first = min(1, protocol.warmup_steps)
    if best is None or len(measured.taken) != first + CLEAR_STEPS or protocol.timed_steps <= CLEAR_STEPS:
        return
    if min(measured.taken[first:]) > CLEARLY * protocol.stop_factor * best:
        measured.warmup_steps = first
        raise _stopped(request, measured.step_seconds, best)


def _stop_if_slow(request: TrialRequest, measured: _Measured) -> None:
    """Stop once the median is beyond doubt so much worse than the best strategy's, as far as its own steps tell."""
    best, protocol, timed = request.best_median_seconds, request.protocol, len(measured.step_seconds)
    if best is None or timed < protocol.check_after or timed == protocol.timed_steps:
        return
    least, _ = median_interval(measured.step_seconds)
    if least > protocol.stop_factor * best:
        raise _stopped(request, measured.step_seconds, best)


def _stopped(request: TrialRequest, step_seconds: list[float], best: float) -> _Ended:
    median = statistics.median(step_seconds)
    whose = "best baseline" if request.purpose == "baseline" else "best"
    return _Ended(
        "stopped",
        f"After {len(step_seconds)} timed steps the median of {median * 1e3:.1f} ms is surely over "
        f"{request.protocol.stop_factor:g} x the {whose} {request.best_when}, {best * 1e3:.1f} ms.",
    )
