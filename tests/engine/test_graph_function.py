"""Functions as bytes: they are traced once and run without their Python code."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from autosync.engine.tensorflow.capture.graph_function import GraphFunction, simplify
from autosync.errors import ModelError

PAIR = [tf.TensorSpec([3], tf.float32)] * 2


def test_a_traced_function_runs_from_its_bytes_alone():
    traced = GraphFunction.trace(lambda a, b: [a + b, a * b], PAIR)
    again = GraphFunction(bytes(traced.graph), traced.inputs, traced.outputs).callable()
    total, product = again(tf.constant([1.0, 2.0, 3.0]), tf.constant([4.0, 5.0, 6.0]))
    assert total.numpy().tolist() == [5.0, 7.0, 9.0]
    assert product.numpy().tolist() == [4.0, 10.0, 18.0]


def test_an_eager_tensor_from_outside_becomes_a_constant():
    many = np.arange(600, dtype=np.float32).reshape(200, 3)  # TensorFlow inlines small arrays as constants anyway
    outside, words = tf.constant(many), tf.constant(["a", "b"] * 100)
    traced = GraphFunction.trace(lambda a, b: [a + outside, b * tf.cast(words == "b", tf.float32)[:3]], PAIR)
    assert len(traced.inputs) == 2
    total, chosen = traced.callable()(tf.constant([1.0, 2.0, 3.0]), tf.constant([4.0, 5.0, 6.0]))
    np.testing.assert_array_equal(total, many + np.float32([1, 2, 3]))
    assert chosen.numpy().tolist() == [0, 5, 0]


def test_a_variable_from_outside_is_refused_with_the_layer_that_reads_it():
    outside = tf.Variable([1.0, 2.0, 3.0])

    def read(a, b):
        with tf.name_scope("model/scaling_1/inner"):
            return [a * outside, b]

    message = r"but layer 'scaling' reads a plain float32 tf\.Variable of shape \(3,\); make it with add_weight"
    with pytest.raises(ModelError, match=message):
        GraphFunction.trace_with_graph(read, PAIR, {"model", "scaling"})


def test_a_table_from_outside_is_refused():
    pairs = tf.lookup.KeyValueTensorInitializer(tf.constant([1, 2], tf.int64), tf.constant([3.0, 4.0]))
    table = tf.lookup.StaticHashTable(pairs, 0.0)
    with pytest.raises(ModelError, match=r"no tables, but the operation '.*Lookup.*' looks values up in one"):
        GraphFunction.trace(lambda a, b: [table.lookup(tf.cast(a, tf.int64)), b], PAIR)


def test_constants_that_every_worker_would_be_sent_anew_are_refused_with_their_size(monkeypatch):
    monkeypatch.setattr("autosync.engine.tensorflow.capture.graph_function.MOST_CONSTANT_BYTES", 1 << 20)
    outside = tf.zeros((1 << 17, 3))
    message = r"may take 1 MB, but they take 2 MB, the largest in the operation 'add'; make it a weight"
    with pytest.raises(ModelError, match=message):
        GraphFunction.trace(lambda a, b: [a + outside, b], PAIR)


def test_functions_that_bring_along_others_of_the_same_names_run_side_by_side():
    scale = tf.function(lambda a: a * 2.0, autograph=False)
    twice = GraphFunction.trace(lambda a, b: [scale(a), b], PAIR)
    graph = tf.compat.v1.GraphDef.FromString(twice.graph)
    (two,) = (node for node in graph.library.function[0].node_def if node.op == "Const")
    two.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(3.0))
    thrice = GraphFunction(graph.SerializeToString(), twice.inputs, twice.outputs)
    results = [function.callable()(tf.ones(3), tf.ones(3))[0].numpy().tolist() for function in (twice, thrice)]
    assert results == [[2, 2, 2], [3, 3, 3]]


def test_a_simplified_function_has_fewer_nodes_and_the_same_results():
    def wordy(a, b):
        return [(a + b) * (tf.constant(2.0) * 3.0) + (a + b) * tf.identity(tf.identity(b)), tf.zeros([3]) + a]

    traced = GraphFunction.trace(wordy, PAIR)
    short = simplify(traced)
    assert (short.inputs, short.outputs) == (traced.inputs, traced.outputs)
    nodes = [len(tf.compat.v1.GraphDef.FromString(function.graph).node) for function in (traced, short)]
    assert nodes[1] < nodes[0]
    arguments = tf.constant([1.0, -2.0, 0.5]), tf.constant([3.0, 4.0, 5.0])
    for expected, result in zip(traced.callable()(*arguments), short.callable()(*arguments), strict=True):
        assert expected.numpy().tolist() == result.numpy().tolist()


def test_a_simplified_third_power_is_a_product_on_no_device_of_its_own():
    def cubes(a, b):
        with tf.device("/device:CPU:0"):
            pinned = tf.exp(b)
        return [tf.pow(a, 3.0) + pinned, tf.pow(a, b)]

    short = simplify(GraphFunction.trace(cubes, PAIR))
    nodes = tf.compat.v1.GraphDef.FromString(short.graph).node
    assert [node.op for node in nodes].count("Pow") == 1
    assert {node.op: node.device for node in nodes if node.device} == {"Exp": "/device:CPU:0"}
    cubed, power = short.callable()(tf.constant([1.5, -2.0, 0.0]), tf.constant([0.0, 2.0, 3.0]))
    assert cubed.numpy() == pytest.approx([1.5**3 + 1, -8 + np.exp(2), np.exp(3)], rel=1e-6)
    assert power.numpy().tolist() == [1.0, 4.0, 0.0]
