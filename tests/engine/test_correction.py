"""Loss scaling and clipping: steps whose gradients overflow, compared with Keras."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from autosync.engine.tensorflow.capture.capturing import capture
from autosync.engine.tensorflow.capture.task import TrainingTask
from autosync.engine.tensorflow.placement import Placement
from autosync.engine.tensorflow.step.session import TensorFlowSession
from tests.cases import local_cluster
from tests.contracts.ways import ALONE

CLUSTER = local_cluster(2)
SCALE = 8.0


def _optimizer():
    return keras.optimizers.LossScaleOptimizer(
        keras.optimizers.SGD(keras.optimizers.schedules.ExponentialDecay(0.1, 1, 0.5), momentum=0.9),
        initial_scale=SCALE,
        dynamic_growth_steps=2,
    )


def _model():
    weights = keras.initializers.RandomNormal(seed=3)
    dense = keras.layers.Dense(2, kernel_initializer=weights, name="dense")
    return keras.Sequential([keras.Input(batch_shape=(4, 3)), dense], name="model")


def _loss(targets, outputs):
    return tf.reduce_mean(tf.square(targets - outputs))


def _batch(seed):
    return tf.random.stateless_normal((4, 3), seed), tf.random.stateless_normal((4, 2), seed + 1)


def _batches(step, replicas, overflows):
    """One batch a replica; with `overflows`, one of its numbers is infinite."""
    made = []
    for replica in range(replicas):
        inputs, targets = (tensor.numpy() for tensor in _batch(tf.constant([step, replica], tf.int32)))
        if overflows and replica == replicas - 1:
            inputs[0, 0] = np.inf
        made.append((inputs, targets))
    return made


@pytest.mark.parametrize("way", ["servers, first axis cut", "one ring", "shards of both kinds"])
def test_a_step_that_overflows_is_left_out_and_halves_the_scale_as_in_keras(way):
    task = TrainingTask("scaled", _model(), _loss, _optimizer(), 4, _batch)
    session = TensorFlowSession(capture(task), CLUSTER, Placement.in_one_process(CLUSTER))
    step = session.realize(ALONE[way](session.model, CLUSTER))
    model, optimizer, scales = _model(), _optimizer(), []
    optimizer.build(model.trainable_variables)
    for number, overflows in enumerate([False, True, False, False, False]):
        batches = _batches(number, 2, overflows)
        before = step.values()
        step.on(batches)
        inputs, targets = (np.concatenate(parts) for parts in zip(*batches, strict=True))
        with tf.GradientTape() as tape:
            scaled = optimizer.scale_loss(_loss(targets, model(inputs)))
        optimizer.apply(tape.gradient(scaled, [variable.value for variable in model.trainable_variables]))
        after, scale = step.values(), {float(replica.state[-1].numpy()) for replica in step.placed.replicas}
        scales.append(scale)
        assert all((after[name] == before[name]).all() for name in after) == overflows
        for variable in model.trainable_variables:
            np.testing.assert_allclose(after[variable.path], variable.numpy(), rtol=1e-5, atol=1e-7)
        assert scale == {float(optimizer.dynamic_scale.numpy())}
    assert scales == [{SCALE}, {SCALE / 2}, {SCALE / 2}, {SCALE}, {SCALE}]
