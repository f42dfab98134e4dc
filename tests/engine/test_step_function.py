"""Step functions: all changes of variables are done, in order, when a call returns."""

from __future__ import annotations

import gc

import pytest
import tensorflow as tf

from autosync.engine.tensorflow.step.step_function import step_function


def test_reads_and_writes_of_a_variable_keep_their_order():
    variable = tf.Variable(1.0)

    def step():
        before = variable.read_value()
        variable.assign(before * 2)
        between = variable.read_value()
        variable.assign_add(between)
        return before + 10 * between

    function = step_function(step)
    assert [float(function()), float(variable)] == [21.0, 4.0]
    assert [float(function()), float(variable)] == [84.0, 16.0]


def test_a_write_that_the_result_does_not_need_is_made():
    variables = [tf.Variable(0) for _ in range(3)]

    def step(by):
        for variable in variables:
            variable.assign_add(by)
        return tf.constant(0.5)

    function = step_function(step, reduce_retracing=True)
    assert float(function(tf.constant(3))) == 0.5
    assert [int(variable) for variable in variables] == [3, 3, 3]


def test_no_write_is_waited_for_by_the_result():
    variable = tf.Variable(0.0)

    def step():
        variable.assign(1.0, read_value=False)
        return tf.constant(2.0)

    function = step_function(step)
    graph = function.get_concrete_function().graph
    assert [op.type for op in graph.control_outputs] == ["AssignVariableOp"]
    assert not graph.outputs[0].op.control_inputs


def test_garbage_is_collected_again_after_a_function_could_not_be_traced():
    def faulty():
        raise ArithmeticError("no step")

    with pytest.raises(ArithmeticError, match="no step"):
        step_function(faulty)()
    assert gc.isenabled()
