"""The pace contract: paced passes release gradients at their times, and give the same values as unpaced ones."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from autosync.baselines import BASELINES
from autosync.spec import ClusterSpec, Pace, Slow, Spread
from tests.cases import star_cluster
from tests.contracts.ways import ALONE
from tests.engine.contracts.conftest import SUBJECTS
from tests.engine.contracts.subject import Case, Subject, session_on

CLUSTER = star_cluster(nodes=2, workers=2)
SECONDS = 0.006


def paced(numbers: str) -> ClusterSpec:
    pace = Pace(1.0, SECONDS / 2, numbers, Spread(0.2, Slow(0.5, 2, 2.0)))
    return replace(CLUSTER, nodes=tuple(replace(node, pace=pace) for node in CLUSTER.nodes))


@pytest.mark.quick("*-servers, first axis cut", "*-two rings", "*-shards of both kinds")
@pytest.mark.parametrize("way", ALONE)
def test_held_passes_give_the_bits_of_unpaced_ones(subject: Subject, way: str) -> None:
    outcomes = []
    for cluster in (CLUSTER, paced("held")):
        session = session_on(subject, Case("table"), cluster)
        step = session.realize(ALONE[way](session.model, cluster))
        losses = [step() for _ in range(3)]
        outcomes.append((losses, {name: value.tobytes() for name, value in subject.values(step, 3).items()}))
        step.close()
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("net", ["dense", "table"])
def test_recorded_passes_repeat_gradients_at_the_initial_values(subject: Subject, net: str) -> None:
    """With SGD, a step moves the values by its gradient, so the third step repeats the move of the first."""
    case = Case(net, "sgd")
    unpaced = session_on(subject, case, CLUSTER)
    plain = unpaced.realize(BASELINES["byteps"](unpaced.model, CLUSTER))
    loss, expected = plain(), subject.values(plain)
    plain.close()
    session = session_on(subject, case, paced("recorded"))
    step = session.realize(BASELINES["byteps"](session.model, session.cluster))
    losses, values = [], [subject.values(step)]
    for _ in range(3):
        losses.append(step())
        values.append(subject.values(step))
    assert step.recorded_steps == 2
    assert losses[0] == losses[2] == loss
    assert losses[1] != losses[0]
    for name, value in expected.items():
        start, first, second, third = (state[name] for state in values)
        assert np.abs(first - value).max() < 1e-12
        assert np.abs((third - second) - (first - start)).max() < 1e-12


@pytest.mark.parametrize("numbers", ["held", "recorded"])
def test_releases_are_never_early(subject: Subject, numbers: str) -> None:
    session = session_on(subject, Case("dense"), paced(numbers))
    step = session.realize(BASELINES["byteps"](session.model, session.cluster))
    step()
    begin = time.perf_counter()
    for _ in range(4):
        step()
    assert time.perf_counter() - begin >= sum(taken.seconds.max() for taken in step.taken[1:])
    late = np.array([taken.late for taken in step.taken])
    assert late.shape == (5, 4, len(session.model.variables))
    assert (late >= 0).all()


def test_all_engines_draw_the_same_passes() -> None:
    drawn = []
    for subject in SUBJECTS.values():
        session = session_on(subject, Case("dense"), paced("recorded"))
        step = session.realize(BASELINES["byteps"](session.model, session.cluster))
        step.seed = 5
        for _ in range(3):
            step()
        drawn.append([taken.seconds.tolist() for taken in step.taken])
        step.close()
    assert np.unique(drawn[0]).size == 12
    assert all(passes == drawn[0] for passes in drawn)
