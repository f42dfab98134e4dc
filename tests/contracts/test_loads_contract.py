"""The contract of loads: it does not matter which replica computes an example, and a batch size needs no new trace."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from autosync.baselines import BASELINES
from autosync.engine.core.batch_split import split_examples, weights_by_examples
from autosync.engine.core.control_loop import ControlLoop
from autosync.engine.tensorflow.capture.captured import CapturedModel
from autosync.engine.tensorflow.capture.capturing import capture
from autosync.engine.tensorflow.placement import Placement
from autosync.engine.tensorflow.step.decided import DecidedStep
from autosync.engine.tensorflow.step.k_sync import KSyncStep
from autosync.engine.tensorflow.step.session import TensorFlowSession
from autosync.errors import SpecError
from autosync.spec import CutOff, Decision, Discipline, Loads, ModelProfile, Pace
from autosync.zoo import build_task
from tests.cases import local_cluster
from tests.contracts.parity import session_on
from tests.contracts.test_pace_contract import paced_like

THREE = local_cluster(3)


@cache
def captured() -> CapturedModel:
    return capture(build_task("teacher"))


def session(paced: bool = False, replicas: int = 3) -> TensorFlowSession:
    cluster, model = local_cluster(replicas), captured()
    if paced:
        ready = {variable.name: 1.0 for variable in model.spec.variables}
        model = replace(model, spec=replace(model.spec, profile=ModelProfile(0.001, 0.001, ready)))
        cluster = paced_like(cluster, Pace(1.0, 0.0, "held"))
    return TensorFlowSession(model, cluster, Placement.in_one_process(cluster))


def stepping(discipline: Discipline, way: str = "all_reduce_25mb", on: TensorFlowSession | None = None) -> Any:
    on = on or session()
    return on.realize(replace(BASELINES[way](on.model, on.cluster), discipline=discipline))


def batches(steps: int, replicas: int = 3) -> list[list[tuple[Any, ...]]]:
    draw = captured().batch.callable()
    return [[tuple(draw(tf.constant([step, replica]))) for replica in range(replicas)] for step in range(steps)]


def assert_same(one: Any, other: Any) -> None:
    for name, value in one.values().items():
        assert value.tobytes() == other.values()[name].tobytes(), name


def assert_trains_as_one_process(dealt: Any) -> None:
    alone = stepping(Discipline(), "parameter_server", session(replicas=1))
    for given in batches(12):
        loss = dealt.on(given)
        whole = [tf.concat(parts, 0) for parts in zip(*given, strict=True)]
        assert loss == pytest.approx(alone.on([whole]), rel=1e-5)
    for name, value in dealt.values().items():
        np.testing.assert_allclose(value, alone.values()[name], rtol=0, atol=1e-5 * np.abs(value).max())


@pytest.mark.parametrize("way", ["all_reduce_25mb", "parameter_server"])
def test_equal_loads_are_plain_training_to_the_bit(way: str) -> None:
    dealt, plain = stepping(Discipline(loads=Loads((2.0, 2.0, 2.0))), way), stepping(Discipline(), way)
    for given in batches(4):
        dealt.on(given)
        plain.on(given)
    assert_same(dealt, plain)
    for _ in range(3):
        assert dealt() == pytest.approx(plain(), rel=1e-6)
    assert_same(dealt, plain)


@pytest.mark.parametrize("way", ["all_reduce_25mb", "parameter_server"])
def test_unlike_loads_train_as_one_process_does_on_all_examples(way: str) -> None:
    dealt = stepping(Discipline(loads=Loads((6.0, 2.0, 1.0))), way)
    assert_trains_as_one_process(dealt)


def test_other_sizes_in_each_step_are_not_traced_anew() -> None:
    step = stepping(Discipline(loads=Loads((1.0, 1.0, 1.0)))).step
    assert isinstance(step, DecidedStep)
    draw = np.random.default_rng(0)
    for number, given in enumerate(batches(8)):
        shares = draw.dirichlet((2.0, 2.0, 2.0))
        step.take(number, Decision(loads=tuple(shares)), given)
    assert (
        step._function(Decision()).experimental_get_tracing_count() <= 2
    )  # TensorFlow relaxes a shape at the second one


def test_a_pass_takes_by_its_examples_where_it_is_paced() -> None:
    step = stepping(Discipline(loads=Loads((4.0, 1.0, 1.0))), on=session(paced=True))
    assert isinstance(step, ControlLoop)
    step()
    step.on(batches(1)[0])
    for taken in step.taken:
        np.testing.assert_allclose(taken.seconds, [0.004, 0.001, 0.001])


def test_found_out_who_is_late_the_examples_are_dealt_out_too() -> None:
    both = Discipline(loads=Loads((6.0, 2.0, 1.0)), waits=CutOff(3))
    found, known = stepping(both), stepping(Discipline(loads=Loads((6.0, 2.0, 1.0))))
    for given in batches(3):
        found.on(given)
        known.on(given)
    for _ in range(2):
        found()
        known()
    assert_same(found, known)
    found.close()


def test_one_that_is_dealt_no_example_takes_part_without_weight() -> None:
    assert split_examples(3, (0.8, 0.15, 0.05)) == [2, 1, 0]
    assert weights_by_examples((2, 1, 0)) == (2.0, 1.0, 0.0)
    dealt = stepping(Discipline(loads=Loads((16.0, 3.0, 1.0))))
    plain = stepping(Discipline())
    (given,) = batches(1)
    few = [[array[:1] for array in batch] for batch in given]
    whole = [tf.concat(parts, 0) for parts in zip(*few, strict=True)]
    dealt.on(few)
    plain.on(
        [[array[:2] for array in whole], [array[2:] for array in whole], [array[:1] for array in whole]],
        (2.0, 1.0, 0.0),
    )
    assert_same(dealt, plain)


@pytest.mark.parametrize("times", [0.5, 2.0, 3.0])
def test_a_step_of_more_or_fewer_examples_is_that_of_their_mean(times: float) -> None:
    """A step on own batches uses the first examples of as many batches as each replica must draw."""
    parts = (2.0, 1.0, 1.0)
    step = stepping(Discipline(loads=Loads(parts, times=times)))
    draws, given = -(-int(48 * times * 0.5) // 16), batches(8)
    sizes = split_examples(int(48 * times), [part / 4 for part in parts])
    drawn = [
        [tf.concat([given[number][replica][part] for number in range(draws)], 0)[:size] for part in range(2)]
        for replica, size in enumerate(sizes)
    ]
    alone = stepping(Discipline(), "parameter_server", session(replicas=1))
    whole = [tf.concat([batch[part] for batch in drawn], 0) for part in range(2)]
    assert step() == pytest.approx(alone.on([whole]), rel=1e-5)
    assert sum(step.report.examples) == 48 * times
    for name, value in step.values().items():
        np.testing.assert_allclose(value, alone.values()[name], rtol=0, atol=1e-5 * np.abs(value).max())


def test_what_cannot_be_is_refused_in_a_sentence() -> None:
    with pytest.raises(SpecError, match=r"loads ask for 2 times the examples of a step, but you give batches of"):
        stepping(Discipline(loads=Loads((1.0, 1.0, 1.0), times=2.0))).on(batches(1)[0])
    with pytest.raises(SpecError, match=r"A step has 0\.015625 to 64 times the examples, not 0 times\."):
        Loads((1.0,), times=0)
    with pytest.raises(SpecError, match=r"Loads have a part for each of 3 replicas, not 2 parts\."):
        stepping(Discipline(loads=Loads((1.0, 2.0))))
    of_one_size = session_on("dense", "SGD", THREE)
    with pytest.raises(SpecError, match="Loads give replicas batches of different sizes, but 'dense' takes only one"):
        stepping(Discipline(loads=Loads((1.0, 2.0, 3.0))), on=of_one_size)


@pytest.mark.parametrize("paced", [False, True], ids=["found out", "paced"])
def test_loads_that_follow_times_train_as_one_process_does(paced: bool) -> None:
    dealt = stepping(Discipline(loads=Loads((6.0, 2.0, 1.0), 0.05)), on=session(paced))
    assert isinstance(dealt.step, DecidedStep if paced else KSyncStep)
    assert_trains_as_one_process(dealt)
    assert sum(dealt.report.examples) == 48
    if paced:  # a pass takes time by its examples, so equal loads take equally long
        assert dealt.report.examples == (16, 16, 16)
    dealt.close()


def test_loads_that_follow_times_draw_no_more_than_they_may_become() -> None:
    assert Loads((1.0,) * 8, 0.1).largest_share == pytest.approx(0.5)
    assert Loads((1.0, 1.0), 0.1).largest_share == 1
    assert Loads((6.0, 2.0, 2.0)).largest_share == pytest.approx(0.6)
