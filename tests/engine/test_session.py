"""Sessions of the TensorFlow engine: several steps at once, random numbers of replicas, states of other strategies."""

from __future__ import annotations

from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf

from autosync.engine.tensorflow.capture.capturing import capture
from autosync.engine.tensorflow.capture.task import TrainingTask
from autosync.engine.tensorflow.placement import Placement
from autosync.engine.tensorflow.step.session import TensorFlowSession
from autosync.errors import SpecError
from tests.cases import local_cluster
from tests.contracts.parity import session_on
from tests.contracts.ways import ALONE

TWO_WORKERS = local_cluster(2)


def _realized(session, way):
    return session.realize(ALONE[way](session.model, session.cluster))


def test_two_strategies_of_a_session_see_the_same_batches_and_do_not_disturb_each_other():
    session = session_on("table", "momentum", TWO_WORKERS)
    served, all_reduced = _realized(session, "one server"), _realized(session, "two rings")
    first = [served() for _ in range(3)]
    np.testing.assert_allclose([all_reduced() for _ in range(3)], first, rtol=1e-6)
    np.testing.assert_allclose([_realized(session, "one server")()], first[:1], rtol=0)
    assert len(set(first)) == 3


def test_replicas_make_different_batches():
    step = _realized(session_on("dense", "SGD", TWO_WORKERS), "one ring")
    batches = tf.function(lambda: [replica.next_batch()[0] for replica in step.placed.replicas], autograph=False)()
    assert not np.array_equal(*batches)


def test_replicas_drop_different_units_and_still_agree():
    features = keras.Input(batch_shape=(4, 6))
    model = keras.Model(features, keras.layers.Dense(3)(keras.layers.Dropout(0.5)(keras.layers.Dense(31)(features))))
    task = TrainingTask(
        "dropout", model, lambda y, z: tf.reduce_mean((y - z) ** 2), keras.optimizers.SGD(0.1), 4, _ones_and_zeros
    )
    step = _realized(TensorFlowSession(capture(task), TWO_WORKERS, Placement.in_one_process(TWO_WORKERS)), "one ring")
    seeds = [replica.state[0].numpy().tolist() for replica in step.placed.replicas]
    assert seeds[0] != seeds[1]
    assert step() != step()
    assert [replica.state[0].numpy().tolist() for replica in step.placed.replicas] != seeds
    for name, value in step.values(0).items():
        np.testing.assert_array_equal(value, step.values(1)[name])


def _ones_and_zeros(seed):
    del seed
    return tf.ones((4, 6)), tf.zeros((4, 3))


def test_a_state_of_another_strategy_is_refused():
    step = _realized(session_on("dense", "SGD", TWO_WORKERS), "one ring")
    with pytest.raises(SpecError, match="compressors or loss scaling fits only its own strategy"):
        step.load(replace(step.state(), synchronizer_state=(np.zeros(3),)))
