"""Functions as bytes: traced once, run again without their Python code."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from autosync.engine.graph_function import GraphFunction
from autosync.engine.simplify import simplified
from autosync.errors import ModelError

PAIR = [tf.TensorSpec([3], tf.float32)] * 2


def test_a_traced_function_runs_from_its_bytes_alone():
    traced = GraphFunction.trace(lambda a, b: [a + b, a * b], PAIR)
    again = GraphFunction(bytes(traced.graph), traced.inputs, traced.outputs).callable()
    total, product = again(tf.constant([1.0, 2.0, 3.0]), tf.constant([4.0, 5.0, 6.0]))
    assert total.numpy().tolist() == [5.0, 7.0, 9.0]
    assert product.numpy().tolist() == [4.0, 10.0, 18.0]


def test_a_tensor_from_outside_is_refused():
    outside, more = tf.constant([1.0, 2.0, 3.0]), tf.Variable([1.0, 2.0, 3.0])
    with pytest.raises(
        ModelError, match=r"as arguments, but it reads a float32 tensor of shape \(3,\) \(2 in all\) from outside; keep"
    ):
        GraphFunction.trace(lambda a, b: [a + outside, b + more], PAIR)


def test_a_simplified_function_has_fewer_nodes_and_the_same_results():
    def wordy(a, b):
        return [(a + b) * (tf.constant(2.0) * 3.0) + (a + b) * tf.identity(tf.identity(b)), tf.zeros([3]) + a]

    traced = GraphFunction.trace(wordy, PAIR)
    short = simplified(traced)
    assert (short.inputs, short.outputs) == (traced.inputs, traced.outputs)
    nodes = [len(tf.compat.v1.GraphDef.FromString(each.graph).node) for each in (traced, short)]
    assert nodes[1] < nodes[0]
    arguments = tf.constant([1.0, -2.0, 0.5]), tf.constant([3.0, 4.0, 5.0])
    for one, other in zip(traced.callable()(*arguments), short.callable()(*arguments), strict=True):
        assert one.numpy().tolist() == other.numpy().tolist()


def test_a_simplified_third_power_is_a_product_on_no_device_of_its_own():
    def cubes(a, b):
        with tf.device("/device:CPU:0"):
            pinned = tf.exp(b)
        return [tf.pow(a, 3.0) + pinned, tf.pow(a, b)]

    short = simplified(GraphFunction.trace(cubes, PAIR))
    nodes = tf.compat.v1.GraphDef.FromString(short.graph).node
    assert [node.op for node in nodes].count("Pow") == 1
    assert {node.op: node.device for node in nodes if node.device} == {"Exp": "/device:CPU:0"}
    cubed, power = short.callable()(tf.constant([1.5, -2.0, 0.0]), tf.constant([0.0, 2.0, 3.0]))
    assert cubed.numpy() == pytest.approx([1.5**3 + 1, -8 + np.exp(2), np.exp(3)], rel=1e-6)
    assert power.numpy().tolist() == [1.0, 4.0, 0.0]
