"""A session: every strategy starts from the same values and sees the same batches; what does not fit is refused."""

from __future__ import annotations

import math
from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf

from autosync.engine.capture.capturing import capture
from autosync.engine.capture.task import TrainingTask
from autosync.engine.placement import Placement
from autosync.engine.step.realize import Session
from autosync.errors import SpecError
from tests.cases import local_cluster
from tests.contracts.parity import session_on
from tests.contracts.ways import ALONE

TWO_WORKERS = local_cluster(2)


def _realized(session, way):
    return session.realize(ALONE[way](session.model, session.cluster))


@pytest.mark.parametrize("way", ALONE)
def test_every_strategy_starts_from_the_captured_values(way):
    session = session_on("pooled", "Adam", TWO_WORKERS)
    step = _realized(session, way)
    for replica in range(2):
        values = step.values(replica)
        assert list(values) == [each.name for each in session.model.variables]
        for value, start in zip(values.values(), session.captured.initial_values, strict=True):
            np.testing.assert_array_equal(value, start)


def test_two_strategies_of_a_session_see_the_same_batches_and_do_not_disturb_each_other():
    session = session_on("table", "momentum", TWO_WORKERS)
    one, other = _realized(session, "one server"), _realized(session, "two rings")
    first = [one() for _ in range(3)]
    np.testing.assert_allclose([other() for _ in range(3)], first, rtol=1e-6)
    np.testing.assert_allclose([_realized(session, "one server")()], first[:1], rtol=0)
    assert len(set(first)) == 3


def test_replicas_make_different_batches():
    step = _realized(session_on("dense", "SGD", TWO_WORKERS), "one ring")
    batches = tf.function(lambda: [each.next_batch()[0] for each in step.placed.replicas], autograph=False)()
    assert not np.array_equal(*batches)


def test_replicas_drop_different_units_and_still_agree():
    features = keras.Input(batch_shape=(4, 6))
    model = keras.Model(features, keras.layers.Dense(3)(keras.layers.Dropout(0.5)(keras.layers.Dense(31)(features))))
    task = TrainingTask(
        "dropout", model, lambda y, z: tf.reduce_mean((y - z) ** 2), keras.optimizers.SGD(0.1), 4, _ones_and_zeros
    )
    step = _realized(Session(capture(task), TWO_WORKERS, Placement.in_one_process(TWO_WORKERS)), "one ring")
    seeds = [each.state[0].numpy().tolist() for each in step.placed.replicas]
    assert seeds[0] != seeds[1]
    assert step() != step()
    assert [each.state[0].numpy().tolist() for each in step.placed.replicas] != seeds
    for name, value in step.values(0).items():
        np.testing.assert_array_equal(value, step.values(1)[name])


def _ones_and_zeros(seed):
    del seed
    return tf.ones((4, 6)), tf.zeros((4, 3))


def test_a_loss_that_is_not_a_number_is_returned_as_such():
    features = keras.Input(batch_shape=(4, 6))
    task = TrainingTask(
        "nan",
        keras.Model(features, keras.layers.Dense(3)(features)),
        lambda _, z: tf.reduce_mean(tf.math.log(-tf.square(z) - 1.0)),
        keras.optimizers.SGD(0.1),
        4,
        _ones_and_zeros,
    )
    step = _realized(Session(capture(task), TWO_WORKERS, Placement.in_one_process(TWO_WORKERS)), "one server")
    assert math.isnan(step())


def test_a_strategy_that_does_not_fit_is_refused_before_anything_is_placed():
    session = session_on("dense", "SGD", TWO_WORKERS)
    strategy = ALONE["one ring"](session.model, TWO_WORKERS)
    with pytest.raises(SpecError, match=r"Variable 'dense/kernel' has no synchronizer; .* Add it\."):
        session.realize(replace(strategy, variables=strategy.variables[1:]))
    with pytest.raises(SpecError, match=r"Replica 'node0/cpu:7' is not in the cluster\."):
        session.realize(replace(strategy, replicas=("node0/cpu:7",)))
