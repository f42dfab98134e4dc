"""Variables count as looked up if they are read only by rows that depend on the batch alone."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from autosync.engine.tensorflow.capture.capturing import capture
from autosync.engine.tensorflow.capture.task import TrainingTask
from tests.contracts.parity import captured_task

ROWS, WIDTH = 11, 3


class _Table(keras.layers.Layer):
    """A layer with a table that `read(table, ids)` reads."""

    def __init__(self, read):
        super().__init__(name="layer")
        self.read = read
        self.table = self.add_weight(shape=(ROWS, WIDTH), initializer="random_normal", name="table")

    def call(self, inputs):
        return self.read(self.table.value, inputs)


def _captured(read):
    ids = keras.Input(batch_shape=(4, 2), dtype="int32")
    outputs = keras.layers.Dense(2)(keras.layers.Flatten()(_Table(read)(ids)))

    def batch(seed):
        return tf.random.stateless_uniform((4, 2), seed, maxval=ROWS, dtype=tf.int32), tf.zeros((4, 2))

    model = keras.Model(ids, outputs)
    return capture(
        TrainingTask("t", model, lambda y, z: tf.reduce_mean((y - z) ** 2), keras.optimizers.SGD(), 4, batch)
    )


@pytest.mark.parametrize(
    ("read", "lookups"),
    [
        (lambda table, ids: tf.gather(table, ids), 1),
        (lambda table, ids: tf.gather(tf.identity(table), (ids * 7 + 1) % ROWS), 1),
        (lambda table, ids: tf.gather(table, ids) + tf.gather(table, tf.reverse(ids, [1])), 2),
        (lambda table, ids: tf.gather(table, tf.cast(ids, tf.int64)), 1),
    ],
)
def test_rows_that_follow_from_the_batch_are_a_sparse_gradient(read, lookups):
    captured = _captured(read)
    assert captured.spec.by_name["layer/table"].sparse
    assert captured.lookup_of == (0,) * lookups
    assert captured.notes == ()


@pytest.mark.parametrize(
    "read",
    [
        lambda table, ids: tf.gather(table, ids) + tf.stop_gradient(tf.reduce_mean(table)),
        lambda table, ids: tf.gather(table, tf.cast(tf.argmax(table[:, 0]), tf.int32) + 0 * ids),
        lambda table, ids: tf.gather(table, (ids + tf.random.uniform([4, 2], maxval=ROWS, dtype=tf.int32)) % ROWS),
    ],
    ids=["also read whole", "rows chosen by the table itself", "rows drawn anew at each run"],
)
def test_other_reads_make_the_gradient_dense_and_say_so(read):
    captured = _captured(read)
    assert not captured.spec.by_name["layer/table"].sparse
    assert captured.notes == ("Variable 'layer/table' is not only looked up; its gradient is made dense.",)


def test_a_gather_along_another_axis_is_dense():
    captured = _captured(lambda table, ids: tf.reduce_sum(tf.gather(table, ids % WIDTH, axis=1), 0))
    assert not captured.spec.by_name["layer/table"].sparse


def test_lookup_ids_are_those_of_the_batch_in_the_order_of_the_lookups():
    captured = captured_task("two inputs", "SGD")
    first, second, targets = captured.batch.callable()(tf.constant([3, 1]))
    found = captured.lookups.callable()(first, second, targets)
    for ids, expected in zip(found, (first, second), strict=True):
        np.testing.assert_array_equal(ids, expected)


def test_the_gradient_is_given_rows_in_place_of_the_table():
    captured = captured_task("table", "SGD")
    graph = tf.compat.v1.GraphDef.FromString(captured.gradient.graph)
    table = next(node for node in graph.node if f"{node.name}:0" == captured.gradient.inputs[0])
    assert [dimension.size for dimension in table.attr["shape"].shape.dim] == [-1, 5]
