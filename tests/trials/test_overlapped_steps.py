"""Trials of steps that overlap with the next forward pass: timed calls of several steps, and how such trials end."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
import pytest

from autosync.baselines import BASELINES
from autosync.engine.core.pacing import Pacing
from autosync.engine.core.steps_a_call import CALL_SECONDS, MOST_STEPS, steps_a_call
from autosync.engine.tensorflow.capture.capturing import capture
from autosync.engine.tensorflow.capture.profile import profile
from autosync.spec import Pace, RuntimeRecord, Spread, Strategy, Target, TimingProtocol
from autosync.zoo import build_task
from tests import cases
from tests.trials.scripted import request
from trials.fleet.local_backend import LocalBackend
from trials.to_target import TargetRequest
from trials.trial import TrialRequest, TrialSetup, run_trial


@dataclass
class Overlapping:
    """A realizer that is also the clock: a call of n steps takes `call_seconds` and n times `step_seconds`."""

    step_seconds: float = 0.25
    call_seconds: float = 0.125
    bad_step: int | None = None
    """The number of the step whose loss is not finite."""
    calls: list[int] = field(default_factory=list)
    """The steps of each call so far; 1 for a single step."""
    seconds: float = 0.0

    def realize(self, strategy: Strategy) -> Overlapping:
        self.strategy = strategy
        return self

    def __call__(self) -> float:
        return self.several(1)[0]

    def several(self, count: int) -> list[float]:
        done = sum(self.calls)
        self.calls.append(count)
        self.seconds += self.call_seconds + count * self.step_seconds
        return [math.nan if done + place == self.bad_step else 1.0 for place in range(count)]

    def close(self) -> None: ...

    def start_trial(self, strategy_digest: str) -> None: ...

    def now(self) -> float:
        return self.seconds

    def timestamp(self) -> float:
        return 0.0


def play(
    step: Overlapping, protocol: TimingProtocol, overlaps: bool = True, best: float | None = None
) -> RuntimeRecord:
    wanted = request(protocol=protocol, best_median_seconds=best)
    wanted = replace(wanted, strategy=replace(wanted.strategy, overlap_next_forward=overlaps))
    return run_trial(step, wanted, TrialSetup(cases.mlp_model(), cases.local_cluster(2), step))


def test_a_timed_call_takes_several_steps_with_equal_shares_of_its_seconds() -> None:
    step = Overlapping()
    record = play(step, TimingProtocol(warmup_steps=2, timed_steps=8))
    assert record.outcome == "ok"
    assert step.calls == [1, 1, 1, 4, 4, 4], "the first call of several traces it"
    assert record.step_seconds == (0.25 + 0.125 / 4,) * 8


def test_without_the_decision_every_call_is_a_step() -> None:
    step = Overlapping()
    record = play(step, TimingProtocol(warmup_steps=2, timed_steps=8), overlaps=False)
    assert step.calls == [1] * 11
    assert record.step_seconds == (0.375,) * 8


def test_a_call_divides_the_timed_steps_and_is_short() -> None:
    assert steps_a_call(0.001, 40) == MOST_STEPS == 4
    assert steps_a_call(0.001, 40, 6) == steps_a_call(0.001, 6) == 2
    assert steps_a_call(0.001, 7) == 1
    assert steps_a_call(CALL_SECONDS / 4, 40) == 4
    assert steps_a_call(CALL_SECONDS / 3, 40) == 2
    assert steps_a_call(CALL_SECONDS, 40) == 1
    slow = Overlapping(step_seconds=3.0)
    assert play(slow, TimingProtocol(warmup_steps=2, timed_steps=8)).outcome == "ok"
    assert slow.calls == [1] * 11


def test_a_slow_trial_is_stopped_at_the_end_of_a_call() -> None:
    step = Overlapping()
    record = play(step, TimingProtocol(warmup_steps=2, timed_steps=40, check_after=5), best=0.14)
    assert record.outcome == "stopped"
    assert step.calls == [1, 1, 1, 4, 4, 4]
    assert record.reason.startswith("After 8 timed steps the median of 281.2 ms is surely over 2 x the best")


def test_a_loss_that_is_not_finite_fails_the_trial_at_its_step_within_a_call() -> None:
    step = Overlapping(bad_step=9)
    record = play(step, TimingProtocol(warmup_steps=2, timed_steps=8))
    assert record.outcome == "failed"
    assert record.reason.startswith("The loss is nan at step 5;"), "the tracing call's steps have no number"
    assert record.step_seconds == ()


def test_a_trial_without_warm_up_chooses_by_its_first_step() -> None:
    step = Overlapping()
    assert play(step, TimingProtocol(warmup_steps=0, timed_steps=4)).step_seconds == pytest.approx([0.28125] * 4)
    assert step.calls == [1, 4, 4]


FOUR = cases.local_cluster(4)
PACED = replace(FOUR, nodes=tuple(replace(node, pace=Pace(0.0, 0.02, "recorded", Spread(0.5))) for node in FOUR.nodes))


@cache
def captured() -> bytes:
    return profile(capture(build_task("digits"))).to_bytes()


def ring(backend: LocalBackend, overlaps: bool = True) -> Strategy:
    return replace(BASELINES["all_reduce_25mb"](backend.model, backend.cluster), overlap_next_forward=overlaps)


def test_a_paced_trial_reports_the_pace_of_its_timed_steps_alone() -> None:
    backend, protocol = LocalBackend(captured(), PACED), TimingProtocol(warmup_steps=2, timed_steps=8)
    record = backend.run(TrialRequest(ring(backend), protocol, seed=2))
    assert record.pace is not None
    assert record.reason == (record.pace.fault or ""), "a busy machine may keep the pace badly"
    assert len(record.step_seconds) == 8
    a_call = record.step_seconds.count(record.step_seconds[0])
    assert a_call in (2, 4)
    pacing = Pacing.of(ring(backend).replicas, backend.model, PACED, ())
    requested = [pacing.seconds(2, number) for number in range(3 + a_call, 3 + a_call + 8)]
    np.testing.assert_allclose(record.pace.requested_seconds, np.median(requested, axis=0))


def test_a_run_to_a_target_has_the_losses_and_the_curve_of_single_steps() -> None:
    backend, target = LocalBackend(captured(), FOUR), Target("loss", 0.01, every=4, steps=10)
    plain, overlapped = (backend.train(TargetRequest(ring(backend, overlaps), target)) for overlaps in (False, True))
    assert overlapped.reason == plain.reason
    assert overlapped.losses == plain.losses
    points = [[(point.step, point.value) for point in record.curve] for record in (plain, overlapped)]
    assert points[0] == points[1]
    assert len(overlapped.step_seconds) == 10
    assert len(set(overlapped.step_seconds)) < 10, "steps of a call have equal shares of its time"
