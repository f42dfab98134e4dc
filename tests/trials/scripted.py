"""A realizer whose steps follow a script, and the setup of its trials."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

from autosync.baselines import BASELINES
from autosync.spec import RuntimeRecord, Strategy, TimingProtocol
from tests import cases
from trials.clock import Clock, FakeClock
from trials.trial import TrialRequest, TrialSetup, run_trial

__all__ = ["Script", "ScriptedStep", "SlowClock", "SteppingClock", "Timeline", "play", "request"]


@final
@dataclass(frozen=True)
class ScriptedStep:
    """A step that returns the result of `loss`."""

    loss: Callable[[], float]
    on_close: Callable[[], None] = lambda: None

    def __call__(self) -> float:
        return self.loss()

    def close(self) -> None:
        self.on_close()


@final
@dataclass
class Script:
    """Its step returns `losses` one after another; an exception among them is raised. Counts the steps taken."""

    losses: Sequence[float | Exception]
    refusal: Exception | None = None
    steps: int = 0

    closed: int = 0

    def realize(self, strategy: Strategy) -> ScriptedStep:  # noqa: ARG002
        if self.refusal is not None:
            raise self.refusal
        script: Iterator[float | Exception] = iter(self.losses)

        def step() -> float:
            self.steps += 1
            loss = next(script)
            if isinstance(loss, Exception):
                raise loss
            return loss

        return ScriptedStep(step, self._close)

    def _close(self) -> None:
        self.closed += 1


@final
@dataclass
class SlowClock:
    """Reading n is 2**n - 1 s: every reading takes longer than all earlier ones together."""

    readings: int = 0

    def start_trial(self, strategy_digest: str) -> None: ...

    def now(self) -> float:
        self.readings += 1
        return 2.0**self.readings - 1

    def timestamp(self) -> float:
        return 0.0


@final
@dataclass
class SteppingClock:
    """The first step takes no time, and the others take `seconds`; between steps no time passes."""

    seconds: Sequence[float]
    readings: int = 0

    def start_trial(self, strategy_digest: str) -> None: ...

    def now(self) -> float:
        self.readings += 1
        return sum(self.seconds[: max(0, (self.readings - 2) // 2)])

    def timestamp(self) -> float:
        return 0.0


@final
@dataclass
class Timeline:
    """A realizer that is also the clock: its steps take `seconds` one after another, the first step first."""

    seconds: Sequence[float]
    steps: int = 0

    def realize(self, strategy: Strategy) -> ScriptedStep:  # noqa: ARG002
        return ScriptedStep(self._step)

    def _step(self) -> float:
        self.steps += 1
        return 0.5

    def start_trial(self, strategy_digest: str) -> None: ...

    def now(self) -> float:
        return sum(self.seconds[: self.steps])

    def timestamp(self) -> float:
        return 0.0


def request(baseline: str = "parameter_server", workers: int = 2, **changes: Any) -> TrialRequest:
    """Return a request to time a baseline of the test model, with 2 warm-up and 6 timed steps."""
    strategy = BASELINES[baseline](cases.mlp_model(), cases.local_cluster(workers))
    return replace(TrialRequest(strategy, TimingProtocol(warmup_steps=2, timed_steps=6)), **changes)


def play(script: Script | Timeline, wanted: TrialRequest, clock: Clock | None = None) -> RuntimeRecord:
    """Return the record of a trial of `wanted` on two workers."""
    return run_trial(script, wanted, TrialSetup(cases.mlp_model(), cases.local_cluster(2), clock or FakeClock()))
