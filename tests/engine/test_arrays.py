"""Flat arrays are cut, joined and scaled with few operations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from autosync.engine.tensorflow.arrays import cut, end_to_end, flat, scale, unflatten


def _in_a_function(function: Any, *given: Any) -> tuple[Any, list[str]]:
    """Trace and run `function`; return its result, and the types of its operations."""
    traced = tf.function(function, autograph=False).get_concrete_function(*given)
    return traced(*given), [
        operation.type for operation in traced.graph.get_operations() if operation.type != "Placeholder"
    ]


@pytest.mark.parametrize("sizes", [(5,), (3, 2), (2, 2, 2, 2), (0, 4, 1)])
def test_an_array_that_is_cut_and_put_together_is_what_it_was(sizes):
    array = tf.range(sum(sizes), dtype=tf.float32)
    for pieces in (cut(array, sizes, "/CPU:0"), _in_a_function(lambda tensor: cut(tensor, sizes, "/CPU:0"), array)[0]):
        assert [len(piece) for piece in pieces] == list(sizes)
        np.testing.assert_array_equal(end_to_end(pieces, "/CPU:0"), array)


@pytest.mark.parametrize("shape", [(), (6,), (2, 3), (0, 2)])
def test_an_array_that_is_made_flat_gets_its_shape_back(shape):
    array = tf.reshape(tf.range(int(np.prod(shape)), dtype=tf.float32), shape)
    again, _ = _in_a_function(lambda tensor: unflatten(flat(tensor, "/CPU:0"), shape, "/CPU:0"), array)
    np.testing.assert_array_equal(again, array)
    assert flat(array, "/CPU:0").shape.rank == 1


def test_what_is_flat_and_whole_already_takes_no_operation():
    def untouched(array: Any) -> Any:
        (only,) = cut(unflatten(flat(array, "/CPU:0"), (4,), "/CPU:0"), (4,), "/CPU:0")
        return end_to_end([only], "/CPU:0")

    _, operations = _in_a_function(untouched, tf.zeros(4))
    assert operations == ["Identity"]  # every function has one for its result


def test_a_device_has_each_constant_once_and_the_graph_inside_a_graph_has_its_own():
    def halved(array: Any) -> Any:
        inner = tf.function(lambda tensor: scale(tensor, 0.5, "/CPU:0"), autograph=False)
        return scale(scale(inner(array), 0.5, "/CPU:0"), 0.5, "/CPU:0")

    result, operations = _in_a_function(halved, tf.constant([8.0]))
    assert float(result[0]) == 1.0
    assert operations.count("Const") == 1
    assert operations.count("Mul") == 2
