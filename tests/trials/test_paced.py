"""Trials on paced nodes: the record's summary of the pace, and the failure of a trial that is late."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np
import pytest
import tensorflow  # noqa: F401 - loaded before tests/conftest.py splits this process' CPU into devices

from autosync.baselines import BASELINES
from autosync.engine.tensorflow.capture.capturing import capture
from autosync.engine.tensorflow.capture.profile import profile
from autosync.spec import ClusterSpec, Pace, RuntimeRecord, Slow, Spread, Strategy, TimingProtocol
from autosync.zoo import build_task
from tests import cases
from tests.trials.scripted import SteppingClock, request
from trials.cluster.discovery import local_cluster
from trials.fleet.local_backend import LocalBackend
from trials.trial import TrialRequest, TrialSetup, run_trial


def paced_like(cluster: ClusterSpec, pace: Pace) -> ClusterSpec:
    return replace(cluster, nodes=tuple(replace(node, pace=pace) for node in cluster.nodes))


@dataclass(frozen=True)
class Taken:
    seconds: Any
    late: Any


@final
@dataclass
class LateStep:
    """Two replicas' passes of 100 and 200 ms in three releases; step k is late by `late(k)`.

    The loss of step `infinite_at` is infinite; `k` begins at 0.
    """

    late: Callable[[int], Any]
    infinite_at: int = 0
    seed: int = 0
    recorded_steps: int = 2
    taken: list[Taken] = field(default_factory=list)

    def __call__(self) -> float:
        self.taken.append(Taken(np.array([0.1, 0.2]), np.asarray(self.late(len(self.taken)))))
        return math.inf if len(self.taken) == self.infinite_at else 1.0

    def close(self) -> None: ...

    def realize(self, strategy: Strategy) -> LateStep:  # noqa: ARG002
        return self


def played(
    late: Callable[[int], Any], step_seconds: float = 0.21, infinite_at: int = 0, **changes: Any
) -> tuple[LateStep, RuntimeRecord]:
    cluster, step = paced_like(cases.local_cluster(2), Pace(0.0, 0.1)), LateStep(late, infinite_at)
    stage = TrialSetup(cases.mlp_model(), cluster, SteppingClock([step_seconds] * 9))
    return step, run_trial(step, request(**changes), stage)


def test_a_record_says_what_passes_were_to_take_took_and_how_late_releases_were_in_its_timed_steps() -> None:
    """The first three steps are setup and warm-up, whose lateness is not recorded."""
    step, record = played(
        lambda k: np.full((2, 3), 0.05) if k < 3 else [[0.0, 0.001, 0.002], [0.0, 0.0, 0.004]], seed=9
    )
    assert (record.outcome, record.reason, step.seed) == ("ok", "", 9)
    kept = record.pace
    assert kept is not None
    assert (record.time, record.numbers, kept.recorded_steps) == ("paced", "recorded", 2)
    assert kept.requested_seconds == (0.1, 0.2)
    assert kept.achieved_seconds == pytest.approx((0.102, 0.204))
    assert kept.late_p50_seconds == pytest.approx((0.001, 0.0))
    assert kept.late_p99_seconds == pytest.approx((0.002, 0.004))
    assert RuntimeRecord.from_json(record.to_json()) == record


@pytest.mark.parametrize(("p50", "outcome"), [(0.0099, "ok"), (0.0101, "failed")])
def test_a_trial_whose_median_release_is_late_by_over_a_twentieth_of_its_pass_has_failed(
    p50: float, outcome: str
) -> None:
    _, record = played(lambda _: [[0.0, 0.0, 0.0], [p50, p50, 0.1]])
    assert record.outcome == outcome
    assert record.pace is not None
    if outcome == "failed":
        assert record.reason == (
            "The pace could not be kept: half of replica 1's releases were over 10.1 ms late, 5% of its pass of 200.0 "
            "ms, and 5% are allowed; leave the machine to the trial, or pace it slower."
        )


def test_a_trial_stopped_for_being_slow_while_it_was_late_has_failed_instead() -> None:
    slow = {"best_median_seconds": 0.05}
    _, in_time = played(lambda _: np.zeros((2, 3)), **slow)
    _, late = played(lambda _: np.full((2, 3), 0.03), **slow)
    assert (in_time.outcome, in_time.pace is not None) == ("stopped", True)
    assert late.outcome == "failed"
    assert late.reason.startswith("The pace could not be kept: half of replica 0's releases were over 30.0 ms late")


def test_a_step_of_an_infinite_loss_was_not_timed_and_its_passes_are_not_told() -> None:
    """Step 3, counted from 0, is the first timed one; step 4 fails."""
    _, record = played(lambda k: np.full((2, 3), k * 1e-4), infinite_at=5)
    assert (record.outcome, len(record.step_seconds)) == ("failed", 1)
    assert record.pace is not None
    assert record.pace.late_p50_seconds == pytest.approx((3e-4, 3e-4))


@pytest.mark.parametrize("numbers", ["recorded", "held"])
def test_a_real_trial_on_paced_workers_takes_its_pace_and_says_how_it_was_kept(numbers: str) -> None:
    captured = profile(capture(build_task("mlp")))
    pace = Pace(0.0, 0.04, numbers, Spread(0.1, Slow(0.5, 3, 2.0)))
    cluster = paced_like(local_cluster(2), pace)
    backend = LocalBackend(captured.to_bytes(), cluster)
    strategy = BASELINES["all_reduce_25mb"](backend.model, cluster)
    wanted = TrialRequest(strategy, TimingProtocol(warmup_steps=1, timed_steps=5), seed=3)
    record = backend.run(wanted)
    kept = record.pace
    assert kept is not None
    assert (record.time, record.numbers) == ("paced", numbers)
    assert kept.recorded_steps == (2 if numbers == "recorded" else 0)
    assert captured.spec.profile is not None
    for replica, device in enumerate(strategy.replicas):
        drawn = [pace.seconds(captured.spec.profile, 3, step, device) for step in range(2, 7)]
        assert kept.requested_seconds[replica] == pytest.approx(float(np.median(drawn)))
        assert kept.achieved_seconds[replica] >= min(drawn)
    assert min(record.step_seconds) >= min(kept.requested_seconds) / 4
