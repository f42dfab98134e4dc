"""A user's own model, named as package.module:function: the accepted forms, and the errors for other forms."""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pytest
import tensorflow as tf

from autosync.engine.tensorflow.capture.capturing import capture
from autosync.errors import ModelError
from autosync.zoo import build_task

PREAMBLE = """
import keras
import numpy as np
import tensorflow as tf

def model(width=3):
    return keras.Sequential([keras.layers.Embedding(50, 4), keras.layers.Flatten(), keras.layers.Dense(width)])

def batch(rows=6, targets=6):
    return np.arange(rows * 2).reshape(rows, 2), np.arange(targets) % 3

LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

"""
counter = itertools.count()


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Writes the body of `def make():` to a module in a new current directory, and returns 'module:make'."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def write(*lines: str, header: str = PREAMBLE) -> str:
        name = f"users_model_{next(counter)}"
        (tmp_path / f"{name}.py").write_text(header + "def make():\n" + "".join(f"    {line}\n" for line in lines))
        return f"{name}:make"

    return write


def test_a_users_model_is_built_the_same_twice_with_adam_and_its_own_rows(written):
    spec = written("return model(), LOSS, batch()")
    task, again = build_task(spec), build_task(spec)
    assert (task.name, task.batch_size) == (spec, 6)
    assert type(task.optimizer).__name__ == "Adam"
    assert float(task.optimizer.learning_rate) == pytest.approx(1e-3)
    assert [variable.path for variable in task.model.variables] == [variable.path for variable in again.model.variables]
    for first, second in zip(task.model.variables, again.model.variables, strict=True):
        assert first.numpy().tobytes() == second.numpy().tobytes()


def test_replicas_see_the_example_batch_rolled_inputs_and_targets_together(written):
    task = build_task(written("return model(), LOSS, batch()"))
    batch = tf.function(task.batch).get_concrete_function(tf.TensorSpec((2,), tf.int32))
    (x0, y0), (x1, y1) = (batch(tf.constant(seed, tf.int32)) for seed in ([7, 0], [7, 1]))
    assert not batch.captured_inputs
    np.testing.assert_array_equal(np.roll(x0, 1, axis=0), x1)
    np.testing.assert_array_equal(np.roll(y0, 1, axis=0), y1)


PAIRS = """
import keras
import numpy as np
import tensorflow as tf

class Pairs(keras.layers.Layer):
    def call(self, inputs):
        return tf.matmul(*inputs, transpose_b=True)

def towers(batch_size=None):
    left, right = keras.Input((4,), batch_size=batch_size), keras.Input((5,), batch_size=batch_size)
    return keras.Model([left, right], Pairs()([keras.layers.Dense(3)(left), keras.layers.Dense(3)(right)]))

LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
EXAMPLE = [np.eye(6, 4), np.eye(6, 5)], np.arange(6)

"""


@pytest.mark.parametrize("batch_size", [None, 6])
def test_targets_may_be_positions_in_a_batch_whose_examples_are_compared_in_pairs(written, batch_size):
    task = build_task(written(f"return towers({batch_size}), LOSS, EXAMPLE", header=PAIRS))
    for seed in ([0, 0], [7, 1]):
        (left, _), positions = task.batch(tf.constant(seed))
        np.testing.assert_array_equal(left, np.eye(6, 4))
        assert positions.numpy().tolist() == [0, 1, 2, 3, 4, 5]
    captured = capture(task)
    batch = captured.batch.callable()(tf.constant([3, 1]))
    values = [tf.constant(value) for value in captured.initial_values]
    loss = captured.gradient.callable()(*values, *batch)[0]
    assert float(loss) == pytest.approx(float(task.loss(positions, task.model(task.batch.inputs()))), rel=1e-5)


@pytest.mark.parametrize(
    "loss",
    ["'sparse_categorical_crossentropy'", "LOSS", "lambda y, z: tf.reduce_mean(z ** 2)"],
)
def test_a_loss_may_be_a_name_a_keras_loss_or_a_function(written, loss):
    task = build_task(written(f"return model(), {loss}, batch(), keras.optimizers.SGD(0.5)"))
    inputs, targets = task.batch(tf.constant([0, 0]))
    loss_value = task.loss(targets, tf.nn.softmax(task.model(inputs)))
    assert (loss_value.dtype, loss_value.shape.rank) == (tf.float32, 0)
    assert float(task.optimizer.learning_rate) == 0.5


def test_double_precision_arrays_become_single(written):
    task = build_task(
        written("x = np.ones((4, 5))", "return keras.Sequential([keras.layers.Dense(1)]), 'mse', (x, x[:, :1])")
    )
    assert {tensor.dtype for tensor in tf.nest.flatten(task.batch(tf.constant([0, 0])))} == {tf.float32}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("return 3", r"must return \(keras_model, loss, \(inputs, targets\)\) .* but returned int\."),
        (
            "return model(), LOSS",
            r"The batch that .* must be a pair \(inputs, targets\), or a data set of them, not keras\.",
        ),
        ("return model, LOSS, batch()", r"first item .* must be a keras\.Model, since .* not function\."),
        ("return model(), 7, batch()", r"second item .* must be a loss, .* not int\."),
        ("return model(), 'no_such_loss', batch()", r"names the loss 'no_such_loss', which Keras does not know\."),
        (
            "return model(), LOSS, batch()[0]",
            r"The batch that .* must be a pair \(inputs, targets\), or a data set of them, not numpy\.ndarray\.",
        ),
        ("return model(), LOSS, (['a'], [1])", r"must hold arrays or tensors only, but: found str"),
        (
            "return model(), LOSS, batch(6, 5)",
            r"batch size as first dimension, but their shapes are \(6, 2\), \(5,\)\.",
        ),
        ("return model(), LOSS, batch(), 0.1", r"fourth item .* must be a keras\.optimizers\.Optimizer, not float\."),
        (
            "return model(), keras.losses.SparseCategoricalCrossentropy(reduction=None), batch()",
            r"must be a scalar, but has shape \(6,\); take its mean",
        ),
        ("return model(), lambda y, z: tf.math.log(-1.0), batch()", r"must be finite, but is nan on the example batch"),
        ("return model(), lambda y, z: tf.constant(1.0), batch()", r"does not depend on any trainable variable"),
        (
            "return model(), lambda y, z: z.nonsense, batch()",
            r"fails on the example batch: AttributeError: .*model_\d+\.py:\d+\)",
        ),
        ("return keras.Sequential([keras.layers.Flatten()]), LOSS, batch()", r"has no trainable variables"),
        (
            "raise OSError('disk is full')",
            r"called without arguments, failed: OSError: disk is full \(at .*model_\d+\.py:\d+\)",
        ),
        (
            "raise SystemExit(3)",
            r"ended the process with sys\.exit: SystemExit: 3 \(at .*model_\d+\.py:\d+\); let it return the model",
        ),
        (
            "return keras.Sequential([keras.layers.Conv2D(2, 3)]), LOSS, batch()",
            r"is not built, and calling it on the example",
        ),
    ],
)
def test_faults_of_a_users_model_are_reported_in_one_sentence(written, line, message):
    with pytest.raises(ModelError, match=message):
        build_task(written(line))


def test_a_module_that_is_not_there_names_the_directory_searched(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(ModelError, match=rf"'nowhere' was found neither in the current directory \({tmp_path}\)"):
        build_task("nowhere.models:make")


def test_an_import_that_fails_inside_the_module_names_its_line(written):
    spec = written("pass", header="import not_installed_anywhere\n")
    with pytest.raises(ModelError, match=r"ModuleNotFoundError: No module .*not_installed_anywhere.* \(at .*\.py:1\)"):
        build_task(spec)


def test_a_module_that_ends_the_process_as_a_script_does_is_told_where_that_belongs(written):
    spec = written("pass", header="import sys\n\nsys.exit()\n")
    message = r"ended the process with sys\.exit: SystemExit: no message \(at .*\.py:3\); move .* under `if __name__"
    with pytest.raises(ModelError, match=message):
        build_task(spec)


def test_a_syntax_error_names_file_and_line(written):
    with pytest.raises(ModelError, match=r"SyntaxError: .*users_model_\d+\.py, line \d+"):
        build_task(written("return ("))


def test_a_missing_function_is_named(written):
    spec = written("return model(), LOSS, batch()")
    with pytest.raises(ModelError, match="must have a function 'build'"):
        build_task(spec.replace(":make", ":build"))


def test_a_name_of_the_wrong_form_shows_the_right_one():
    with pytest.raises(ModelError, match=r"is named as package\.module:function, not 'module:'"):
        build_task("module:")
