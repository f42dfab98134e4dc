"""Training in virtual time: the same numbers as in real time, and computed seconds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf

from autosync.baselines import BASELINES
from autosync.spec import CutOff, Discipline, Fidelity, Loads, Pace, Rhythm, Spread, Target
from studies.literature.trained import NODES, Arm, World, capture_task, train
from trials.fleet.local_backend import LocalBackend
from trials.to_target import TargetRequest

assert tf, "devices are made before anything else uses TensorFlow"

STEADY = World("digits", 16, (Pace(0.0, 1.0, "held"),) * NODES, 0.5)
JITTER = World("digits", 16, (Pace(0.0, 1.0, "held", Spread(lognormal=0.3)),) * NODES, 0.5)


def steps(count: int) -> Target:
    return Target("loss", 1e-6, every=count, steps=count)


@pytest.mark.parametrize(
    ("discipline", "keeps", "seconds"),
    [
        (Discipline(), None, [1.5] * 4),
        (Discipline(), 0.05, [1.05] * 4),
        (Discipline(Rhythm(2)), None, [1.0, 1.5, 1.0, 1.5]),
        (Discipline(Rhythm(threshold=0.0)), None, [1.5] * 4),
        (Discipline(Rhythm(threshold=1e6)), None, [1.5, 1.0, 1.0, 1.0]),
        (Discipline(fidelity=Fidelity((1.0, 0.1), 2)), 0.1, [1.5, 1.5, 1.1, 1.1]),
        (Discipline(loads=Loads((1.0, 1.0, 1.0, 5.0))), None, [1.5] * 4),
    ],
)
def test_a_step_takes_its_passes_and_then_what_its_exchange_is_said_to(
    discipline: Discipline, keeps: float | None, seconds: list[float]
) -> None:
    record = train(STEADY, Arm(discipline, keeps), 0, steps(4))
    assert record.step_seconds == pytest.approx(seconds)
    assert record.pace is not None
    assert record.pace.time == "virtual"
    assert record.pace.late_p99_seconds == (0.0,) * NODES


@pytest.mark.parametrize("late", ["finish", "stop"])
def test_a_cut_off_waits_for_the_passes_that_a_paced_run_would(late: str) -> None:
    world, target = JITTER, steps(12)
    first, all_of_them = (
        train(world, Arm(Discipline(waits=waits)), 3, target) for waits in (CutOff(2, late=late), CutOff(NODES))
    )
    pace, devices = world.paces[0], [f"node{node}/cpu:0" for node in range(NODES)]
    drawn = np.array([[pace.spread.at(3, step, device) for device in devices] for step in range(12)])
    assert all_of_them.step_seconds == pytest.approx(drawn.max(1) + 0.5)
    assert sum(first.counted) == 24
    if late == "stop":
        assert first.step_seconds == pytest.approx(np.sort(drawn)[:, 1] + 0.5)
    else:
        assert sum(first.step_seconds) > sum(np.sort(drawn)[:, 1] + 0.5), "late replicas start their next pass later"


def test_the_numbers_are_those_of_time_that_passes() -> None:
    quick = replace(STEADY, paces=(Pace(0.0, 0.01, "held"),) * NODES)
    real = LocalBackend(capture_task("digits", 16, 0.0), quick.cluster)
    strategy = BASELINES["all_reduce_25mb"](real.model, real.cluster)
    passing = real.train(TargetRequest(strategy, steps(20), 1))
    virtual = train(STEADY, Arm(Discipline()), 1, steps(20))
    assert virtual.losses == pytest.approx(passing.losses, rel=1e-6)
    assert virtual.seconds == pytest.approx(30.0)
    assert passing.pace is None or passing.pace.time == "paced"
