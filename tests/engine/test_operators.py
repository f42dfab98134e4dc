"""The coarse operator graph: flops computed by hand, and the variables that operators read."""

from __future__ import annotations

import keras
import pytest
import tensorflow as tf

from autosync.engine.tensorflow.capture.operators import coarse_operators
from tests.contracts.parity import captured_task


def _operators(function, *shapes):
    """Coarse operators of `function` over placeholders; the first placeholder counts as variable 'v'."""
    with tf.Graph().as_default() as graph:
        inputs = [tf.compat.v1.placeholder(tf.float32, shape) for shape in shapes]
        function(*inputs)
        return coarse_operators(graph.get_operations(), {inputs[0].op.name: "v"})


@pytest.mark.parametrize(
    ("function", "shapes", "flops"),
    [
        (lambda w, x: x @ w, [(7, 13), (5, 7)], 2 * 5 * 7 * 13),
        (lambda w, x: tf.matmul(x, w, transpose_a=True), [(7, 13), (7, 5)], 2 * 5 * 7 * 13),
        (lambda w, x: tf.matmul(x, w, transpose_b=True), [(13, 7), (5, 7)], 2 * 5 * 7 * 13),
        (lambda w, x: tf.matmul(x, w), [(3, 7, 13), (3, 5, 7)], 2 * 3 * 5 * 7 * 13),
        (lambda w, x: tf.nn.conv2d(x, w, 1, "VALID"), [(3, 3, 2, 5), (4, 7, 7, 2)], 2 * (4 * 5 * 5 * 5) * 3 * 3 * 2),
        (lambda w, x: tf.nn.conv2d(x, w, 2, "SAME"), [(3, 3, 2, 5), (4, 7, 7, 2)], 2 * (4 * 4 * 4 * 5) * 3 * 3 * 2),
        (
            lambda w, x: tf.nn.depthwise_conv2d(x, w, [1, 1, 1, 1], "VALID"),
            [(3, 3, 5, 1), (4, 7, 7, 5)],
            2 * (4 * 5 * 5 * 5) * 3 * 3,
        ),
        (lambda w, x: tf.einsum("abc,cde->abde", x, w), [(6, 2, 3), (4, 5, 6)], 2 * 4 * 5 * 6 * 2 * 3),
        (lambda w, x: tf.einsum("...c,cd->...d", x, w), [(6, 2), (4, 5, 6)], 2 * 4 * 5 * 6 * 2),
    ],
)
def test_flops_are_two_for_every_multiply_and_add(function, shapes, flops):
    assert sum(operator.flops for operator in _operators(function, *shapes)) == flops


def test_attention_counts_projections_scores_and_mixing():
    batch, length, width, heads, size = 2, 5, 12, 3, 4
    with tf.Graph().as_default() as graph:
        layer = keras.layers.MultiHeadAttention(heads, size)
        x = tf.compat.v1.placeholder(tf.float32, (batch, length, width))
        layer(x, x)
        found = coarse_operators(graph.get_operations(), {})
    projections = 4 * 2 * batch * length * width * heads * size
    scores_and_mixing = 2 * 2 * batch * heads * length * length * size
    assert sum(item.flops for item in found) == projections + scores_and_mixing


def test_light_operations_are_folded_into_the_edges():
    def function(w, x):
        hidden = tf.tanh(tf.reshape(x @ w, [5, 13])) + 1.0
        return hidden @ tf.transpose(w)

    first, second = _operators(function, (7, 13), (5, 7))
    assert (first.inputs, first.variables) == ((), ("v",))
    assert (second.inputs, second.variables) == ((first.name,), ("v",))


def test_the_backward_pass_is_left_out_and_every_variable_is_read():
    spec = captured_task("convolution", "SGD").spec
    assert {name for operator in spec.operators for name in operator.variables} == {
        variable.name for variable in spec.variables
    }
    assert not [operator for operator in spec.operators if "gradient" in operator.name]
    heavy = {operator.kind: operator.flops for operator in spec.operators if operator.flops}
    assert heavy == {
        "Conv2D": 2 * (5 * 5 * 5 * 5) * 3 * 3 * 2,
        "DepthwiseConv2dNative": 2 * (5 * 3 * 3 * 5) * 3 * 3,
        "MatMul": 2 * 5 * 45 * 3,
    }


def test_a_shape_known_only_at_run_time_counts_nothing():
    assert sum(operator.flops for operator in _operators(lambda w, x: x @ w, (7, 13), (None, 7))) == 0
