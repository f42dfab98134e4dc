"""Capturing is deterministic to the bit, its bytes are complete, and its notes and errors are clear."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf

from autosync.engine.tensorflow.capture.captured import CapturedModel
from autosync.engine.tensorflow.capture.capturing import capture
from autosync.engine.tensorflow.capture.task import TrainingTask
from autosync.errors import ModelError
from tests.contracts.parity import captured_task
from tests.contracts.tasks import OPTIMIZERS, build
from tests.engine.worker_processes import REPOSITORY, quiet

DIGESTS = """
import hashlib, sys
from autosync.engine.tensorflow.capture.capturing import capture
from autosync.zoo import build_task
from tests.contracts.tasks import OPTIMIZERS, build
tasks = [build("recurrent", OPTIMIZERS["Adam"]()), build_task("mlp")]
for task in tasks:
    captured = capture(task)
    sys.stdout.write(f"{captured.spec.digest} {hashlib.sha256(captured.to_bytes()).hexdigest()}\\n")
"""


@pytest.mark.thorough
def test_two_processes_capture_the_same_digest_and_the_same_bytes():
    command = [sys.executable, "-c", DIGESTS]
    runs = [
        subprocess.Popen(
            command, cwd=REPOSITORY, env=quiet(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    (first, complaint), (second, _) = (run.communicate() for run in runs)
    assert runs[0].returncode == 0, complaint[-2000:]
    assert len(set(first.split())) == 4
    assert first == second


def test_a_captured_model_survives_its_bytes():
    captured = captured_task("pooled", "Adam")
    again = CapturedModel.from_bytes(captured.to_bytes())
    assert again.to_bytes() == captured.to_bytes()
    assert again.spec == captured.spec
    assert (again.gradient, again.batch, again.lookups) == (captured.gradient, captured.batch, captured.lookups)
    assert (again.optimizers, again.lookup_of, again.seeds) == (captured.optimizers, captured.lookup_of, captured.seeds)
    for loaded, original in zip(again.initial_values, captured.initial_values, strict=True):
        np.testing.assert_array_equal(loaded, original)


def test_a_captured_model_with_several_update_rules_survives_its_bytes():
    optimizer = keras.optimizers.AdamW()
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    captured = capture(build("two dtypes", optimizer))
    again = CapturedModel.from_bytes(captured.to_bytes())
    assert set(captured.rules) == {0, 1}
    assert (again.rules, again.optimizers) == (captured.rules, captured.optimizers)


@pytest.mark.parametrize("data", [b"", b"not an archive", b"PK\x05\x06" + bytes(18)])
def test_other_bytes_are_refused(data):
    with pytest.raises(ModelError, match="A captured model must be an archive written by autosync, but: "):
        CapturedModel.from_bytes(data)


def test_a_truncated_archive_is_refused():
    data = captured_task("dense", "SGD").to_bytes()
    with pytest.raises(ModelError, match="A captured model must be an archive written by autosync, but: "):
        CapturedModel.from_bytes(data[: len(data) // 2])


def test_gradients_of_the_last_layer_are_ready_first():
    spec = captured_task("dense", "SGD").spec
    layers = [variable.name.split("/")[0] for variable in sorted(spec.variables, key=lambda item: item.ready_order)]
    assert list(dict.fromkeys(layers)) == ["dense_2", "__scale", "dense_1", "dense"]
    assert sorted(variable.ready_order for variable in spec.variables) == list(range(len(spec.variables)))


def test_a_variable_without_a_path_to_the_loss_is_state_and_noted():
    captured = captured_task("idle", "SGD")
    assert [variable.name for variable in captured.spec.variables] == [
        "dense/kernel",
        "dense/bias",
        "used/kernel",
        "used/bias",
    ]
    assert captured.state_names[:2] == ("idle/kernel", "idle/bias")
    assert "Variable 'idle/kernel' has no path to the loss and is not trained." in captured.notes


def test_batch_norm_statistics_are_state_of_each_replica_and_noted():
    captured = captured_task("normalized", "SGD")
    assert captured.state_names == ("batch_normalization/moving_mean", "batch_normalization/moving_variance")
    assert captured.notes == ("Batch-norm statistics are kept per replica and are not synchronized.",)


def test_dropout_seeds_are_known_as_seeds():
    features = keras.Input(batch_shape=(4, 6))
    model = keras.Model(features, keras.layers.Dropout(0.5)(keras.layers.Dense(3)(features)))
    captured = capture(_task(model, lambda seed: (tf.random.stateless_normal((4, 6), seed), tf.zeros((4, 3)))))
    assert captured.seeds == (True,)


def test_rows_a_step_are_the_distinct_ones_of_all_lookups_of_a_table():
    captured = captured_task("two inputs", "SGD")
    batch = captured.batch.callable()
    touched = []
    for seed in range(4):
        first, second, _ = batch(tf.constant([seed, 0]))
        touched.append({*first.numpy().ravel(), *second.numpy().ravel()})
    assert captured.lookup_of == (0, 0)
    embedding = captured.spec.by_name["embedding/embeddings"]
    assert embedding.rows_per_step == np.mean([len(rows) for rows in touched])
    assert embedding.rows_of_two == np.mean([len(touched[place] | touched[place - 1]) for place in range(4)])
    assert max(len(rows) for rows in touched) < 5 * 6  # some id occurs twice


def test_slots_and_settings_of_the_optimizer_are_in_the_spec():
    spec = captured_task("dense", "Adam").spec
    assert spec.slots == 2
    assert spec.optimizer.startswith("Adam {")
    assert '"learning_rate": 0.009999999776482582' in spec.optimizer
    assert captured_task("dense", "SGD").spec.digest != spec.digest


def test_variables_of_two_dtypes_get_an_optimizer_each():
    assert list(captured_task("two dtypes", "Adam").optimizers) == ["float32", "float64"]


def _task(model, batch, loss=lambda y, z: tf.reduce_mean(tf.square(y - z))):
    return TrainingTask("mine", model, loss, keras.optimizers.SGD(0.1), 4, batch)


def _batch(seed):
    return tf.random.stateless_normal((4, 6), seed), tf.zeros((4, 3))


def _sequential(*layers):
    model = keras.Sequential([keras.Input(batch_shape=(4, 6)), *layers])
    return _task(model, _batch)


def test_a_constrained_variable_is_refused():
    task = _sequential(keras.layers.Dense(3, kernel_constraint=keras.constraints.MaxNorm(1.0)))
    with pytest.raises(
        ModelError,
        match=r"A constraint must hold element by element, as NonNeg does, but MaxNorm of '.*/kernel' cannot",
    ):
        capture(task)


def test_a_loss_that_depends_on_nothing_is_refused():
    task = replace(_sequential(keras.layers.Dense(3)), loss=lambda y, _: tf.reduce_sum(y))
    with pytest.raises(ModelError, match=r"The loss of model 'mine' depends on none of its trainable variables; check"):
        capture(task)


def test_a_model_that_cannot_run_as_a_graph_is_refused_with_its_own_words():
    task = _sequential(keras.layers.Dense(3))
    with pytest.raises(
        ModelError, match=r"'mine' and its loss must run as a TensorFlow graph, but AttributeError: .*nons"
    ):
        capture(replace(task, loss=lambda _, z: z.nonsense))


def test_a_batch_may_close_over_a_tensor():
    outside = tf.reshape(tf.range(4.0 * 60), (4, 60))
    model = keras.Sequential([keras.Input(batch_shape=(4, 60)), keras.layers.Dense(3)])
    captured = capture(_task(model, lambda _: (outside, tf.zeros((4, 3)))))
    np.testing.assert_array_equal(captured.batch.callable()(tf.constant([0, 0]))[0], outside)


def test_a_layer_may_have_a_private_class():
    assert "__scale/factor" in captured_task("table", "SGD").spec.by_name


def test_capturing_leaves_the_model_as_it_was():
    task = build("table", OPTIMIZERS["SGD"]())
    before = [variable.numpy() for variable in task.model.variables]
    capture(task)
    for value, variable in zip(before, task.model.variables, strict=True):
        np.testing.assert_array_equal(value, variable.numpy())


def test_a_layer_may_hold_constants_such_as_the_statistics_that_inputs_are_normalized_with():
    statistics = np.linspace(1, 2, 200, dtype=np.float32)
    model = keras.Sequential([
        keras.Input(batch_shape=(4, 200)),
        keras.layers.Normalization(mean=statistics, variance=statistics**2),
        keras.layers.Dense(3),
    ])  # fmt: skip
    captured = capture(_task(model, lambda seed: (tf.random.stateless_normal((4, 200), seed), tf.zeros((4, 3)))))
    batch = captured.batch.callable()(tf.constant([3, 0]))
    values = [tf.constant(value) for value in (*captured.initial_values, *captured.initial_state)]
    loss = captured.gradient.callable()(*values, *batch)[0]
    assert float(loss) == pytest.approx(float(tf.reduce_mean(model(batch[0]) ** 2)), rel=1e-5)


def test_a_layer_with_state_that_keras_does_not_know_is_refused_by_its_name():
    class Counting(keras.layers.Layer):
        def build(self, _):
            self.calls = tf.Variable(0.0)

        def call(self, inputs):
            return inputs * self.calls.assign_add(1.0)

    with pytest.raises(
        ModelError, match=r"but layer 'my_count' reads a plain float32 tf\.Variable of shape \(\); make"
    ):
        capture(_sequential(Counting(name="my_count"), keras.layers.Dense(3)))
