"""Trials to a target: the curve, the ends, and the record."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from autosync.baselines import BASELINES
from autosync.engine.tensorflow.capture.captured import CapturedModel
from autosync.engine.tensorflow.capture.capturing import capture
from autosync.engine.tensorflow.capture.profile import profile
from autosync.errors import SpecError
from autosync.spec import (
    PLAIN,
    CurvePoint,
    CutOff,
    Decided,
    Discipline,
    Loads,
    Pace,
    Rhythm,
    Spread,
    Strategy,
    Target,
    TargetRecord,
)
from autosync.zoo import build_task
from autosync.zoo.quadratic import CURVATURES
from tests.cases import local_cluster
from trials.fleet.local_backend import LocalBackend
from trials.to_target import TargetRequest

FOUR = local_cluster(4)
PACED = replace(FOUR, nodes=tuple(replace(node, pace=Pace(0.0, 0.03, "recorded", Spread(0.5))) for node in FOUR.nodes))


@cache
def captured(task: str) -> CapturedModel:
    return profile(capture(build_task(task)))


def strategy_of(backend: LocalBackend, discipline: Discipline) -> Strategy:
    return replace(BASELINES["all_reduce_25mb"](backend.model, backend.cluster), discipline=discipline)


def trained(
    task: str,
    target: Target,
    discipline: Discipline = PLAIN,
    paced: bool = False,
    **more: Any,
) -> TargetRecord:
    backend = LocalBackend(captured(task).to_bytes(), PACED if paced else FOUR)
    record = backend.train(TargetRequest(strategy_of(backend, discipline), target, **more))
    assert TargetRecord.from_json(json.loads(json.dumps(record.to_json()))) == record
    return record


def test_a_run_ends_where_the_target_is_reached_and_says_how_it_came_there() -> None:
    record = trained("digits", Target("loss", 1.2, every=5, steps=400))
    assert record.outcome == "reached", record.reason
    values = [point.value for point in record.curve]
    assert [point.step for point in record.curve] == list(range(0, record.steps + 1, 5))
    assert values[0] == pytest.approx(np.log(10), rel=0.2), "it knows nothing at first"
    assert all(value > 1.2 for value in values[:-1])
    assert values[-1] <= 1.2
    assert record.seconds == pytest.approx(sum(record.step_seconds))
    assert len(record.losses) == record.steps == record.met
    assert record.counted == (record.steps,) * 4
    assert record.step_seconds[0] < 1.0, "building the step is none of them"
    assert (record.cluster.time, record.pace, record.controller_seconds) == ("real", None, 0.0)


def test_the_same_seed_is_the_same_run_and_another_one_draws_other_batches() -> None:
    target = Target("loss", 0.01, every=10, steps=20)
    first, again, different = (trained("digits", target, seed=seed) for seed in (3, 3, 4))
    assert first.losses == pytest.approx(again.losses, rel=1e-6)
    assert abs(np.array(first.losses) - np.array(different.losses)).max() > 0.01
    assert first.curve[0].value == different.curve[0].value, "what it is judged by is the same"
    assert (first.outcome, first.reason) == (
        "not_reached",
        f"After all 20 steps the loss is {first.curve[-1].value:.4g}.",
    )


def test_gradient_descent_on_a_quadratic_is_what_is_known_in_closed_form() -> None:
    record = trained("quadratic", Target("loss", -9.0, every=10, steps=40))
    start = record.curve[0].value
    for point in record.curve:
        mean = (1 - 0.5 * CURVATURES) ** point.step
        expected = 0.5 * float((CURVATURES * (mean**2 - 1)).sum())
        assert point.value - start == pytest.approx(expected, abs=0.3)


@pytest.mark.quick("rhythm", "first three, the others stop")
@pytest.mark.parametrize(
    ("discipline", "paced"),
    [
        (Discipline(Rhythm(4)), False),
        (Discipline(Rhythm(4)), True),
        (Discipline(Rhythm(threshold=0.05)), False),
        (Discipline(waits=CutOff(3)), False),
        (Discipline(waits=CutOff(3)), True),
        (Discipline(waits=CutOff(3, "stop")), True),
    ],
    ids=["rhythm", "rhythm, paced", "threshold", "first three", "first three, paced", "first three, the others stop"],
)
def test_a_run_under_a_discipline_says_how_often_replicas_met_and_counted(discipline: Discipline, paced: bool) -> None:
    record = trained("teacher", Target("loss", 0.1, every=8, steps=16), discipline, paced)
    on_a_busy_machine = paced and record.reason.startswith("The pace could not be kept")
    assert record.outcome == "not_reached" or on_a_busy_machine, record.reason
    assert record.curve[-1].value < record.curve[0].value
    assert record.steps == 16
    assert record.controller_seconds > 0
    if discipline.waits:
        assert (record.met, sum(record.counted)) == (16, 48)
        assert max(record.counted) <= 16
    elif discipline.rhythm and discipline.rhythm.steps:
        assert (record.met, record.counted) == (4, (16,) * 4)
    assert (record.pace is not None) == paced
    if record.pace:
        assert (record.pace.numbers, record.cluster.numbers, record.pace.recorded_steps) == ("held", "held", 0)


def test_a_run_that_takes_too_long_ends_with_a_reason() -> None:
    record = trained("digits", Target("loss", 0.0, every=1, steps=10**6), time_limit_seconds=3.0)
    assert record.outcome == "timed_out"
    assert record.reason == f"The run's 3 s were over after {record.steps} steps."


def test_a_strategy_that_does_not_fit_is_a_record_with_its_reason() -> None:
    record = trained("digits", Target("loss", 0.1), Discipline(waits=CutOff(9)))
    assert (record.outcome, record.curve) == ("failed", ())
    assert record.reason == "A step waits for at most all 4 replicas, not for the first 9."


def test_a_run_that_diverges_has_failed() -> None:
    model = captured("digits")
    wild = replace(model, initial_values=tuple(value * np.float32(1e38) for value in model.initial_values))
    backend = LocalBackend(wild.to_bytes(), FOUR)
    record = backend.train(TargetRequest(strategy_of(backend, Discipline()), Target("loss", 0.1)))
    assert record.outcome == "failed"
    assert "training has diverged" in record.reason


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"metric": "accuracy", "threshold": 0.9}, "The metric of a target is one of loss, not 'accuracy'."),
        ({"metric": "loss", "threshold": float("nan")}, "A target's threshold is a finite number, not nan."),
        ({"metric": "loss", "threshold": 0.1, "every": 0}, "A target is looked at after 1 step or more"),
        ({"metric": "loss", "threshold": 0.1, "every": 30, "steps": 20}, "not after every 30 of 20."),
    ],
)
def test_a_target_that_says_nothing_is_refused(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SpecError) as error:
        Target(**arguments)
    assert sentence in str(error.value)


@pytest.mark.parametrize("seed", [-1, 2048])
def test_a_seed_without_batches_of_its_own_is_refused(seed: int) -> None:
    with pytest.raises(SpecError, match="A seed of training must be from 0 to 2047"):
        TargetRequest(Strategy(("node0/cpu:0",), ()), Target("loss", 0.1), seed)


def test_a_run_far_behind_another_is_given_up_and_says_how_far() -> None:
    ahead = (CurvePoint(0, 0.0, 9.0), CurvePoint(10, 1e-6, 1.2))
    record = trained("digits", Target("loss", 1.2, every=5, steps=400), rival=ahead)
    assert record.outcome == "not_reached"
    assert record.behind is not None
    assert record.behind > 2
    assert record.steps == 5
    assert "times as long as another run to this loss" in record.reason
    slow = (CurvePoint(0, 0.0, 9.0), CurvePoint(10, 1e6, 1.2))
    assert trained("digits", Target("loss", 1.2, every=5, steps=400), rival=slow).outcome == "reached"


@pytest.mark.parametrize(
    ("discipline", "decided"),
    [
        (Discipline(waits=CutOff(3)), Decided(counted=(3,) * 6)),
        (Discipline(Rhythm(3)), Decided(met=(0, 0, 1, 0, 0, 1))),
        (Discipline(loads=Loads((2.0, 1.0, 1.0, 1.0))), Decided(largest_load=(0.4,) * 6)),
    ],
    ids=["waits", "rhythm", "loads"],
)
def test_a_record_says_what_was_decided_in_each_step(discipline: Discipline, decided: Decided) -> None:
    assert trained("digits", Target("loss", 0.0, every=6, steps=6), discipline).decided == decided
    assert trained("digits", Target("loss", 0.0, every=6, steps=6)).decided is None
