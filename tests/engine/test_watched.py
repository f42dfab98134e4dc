"""Assignments to Keras variables are noticed, however they are made."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from autosync.engine.tensorflow.training.watched import Watched

WAYS = {
    "assign": lambda variable: variable.assign(variable.numpy() + 1),
    "assign_add": lambda variable: variable.assign_add(np.ones(variable.shape, variable.dtype)),
    "TensorFlow": lambda variable: variable.value.assign_sub(np.ones(variable.shape, variable.dtype)),
    "NaN": lambda variable: variable.assign(np.full(variable.shape, np.nan, variable.dtype)),
}


@pytest.mark.parametrize("shape", [(), (1,), (7, 5), (300, 200)], ids=str)
@pytest.mark.parametrize("way", WAYS)
def test_an_assignment_is_noticed(way: str, shape: tuple[int, ...]) -> None:
    variables: list[Any] = [keras.Variable(np.zeros(shape, "float32")) for _ in range(3)]
    watched = Watched(variables)
    assert watched.changed() == set()
    WAYS[way](variables[1])
    changed = watched.changed()
    assert changed == {id(variables[1])}
    watched.note()
    assert watched.changed() == set()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int32", "bool", "uint32"])
def test_the_same_contents_are_no_change(dtype: str) -> None:
    variable = keras.Variable(np.ones((4, 3)), dtype=dtype, trainable=False)
    watched = Watched([variable])
    variable.assign(np.ones((4, 3)))
    assert watched.changed() == set()
    variable.assign(np.zeros((4, 3)))
    assert watched.changed() == {id(variable)}


def test_the_same_contents_assigned_to_a_stale_variable_are_a_change() -> None:
    variables: list[Any] = [keras.Variable(np.zeros(3, "float32")) for _ in range(2)]
    watched = Watched(variables)
    variables[1].assign(np.zeros(3))
    assert watched.changed() == set()
    assert watched.changed(is_stale=True) == {id(variables[1])}


def test_a_variable_that_is_copied_when_it_is_read_is_compared_by_content() -> None:
    variable = keras.Variable(np.zeros((5, 2), "float32"))
    variable.value.scatter_add(tf.IndexedSlices(tf.ones((1, 2)), [3]))  # reads copy from then on
    watched = Watched([variable])
    assert watched.changed(is_stale=True) == set()
    variable.value.scatter_add(tf.IndexedSlices(tf.ones((1, 2)), [1]))
    assert watched.changed() == {id(variable)}
