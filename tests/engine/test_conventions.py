"""Model functions may return every form that a Keras user expects; other forms get an error with the remedy."""

from __future__ import annotations

import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from autosync.errors import ModelError
from autosync.zoo import build_task
from autosync.zoo.losses import gradients
from tests.engine.test_user_model import written

__all__ = ["written"]

HEADER = """
import keras
import numpy as np
import tensorflow as tf

X = np.random.default_rng(0).normal(size=(6, 4)).astype("float32")
LABELS = np.arange(6) % 3
REAL = np.arange(6, dtype="float32") / 3

def model(width=3):
    keras.utils.set_random_seed(0)
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(width)])

def compiled(loss="mse", width=1, **more):
    made = model(width)
    made.compile("sgd", loss, **more)
    return made

def squares(targets, outputs):
    return keras.ops.mean(keras.ops.square(targets - outputs), -1)

def distances(targets, outputs):
    return tf.square(targets - outputs[:, 0])

WEIGHTS = np.linspace(0, 2, 6).astype("float32")
CROSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

def per_example(targets, outputs):
    return keras.losses.sparse_categorical_crossentropy(targets, outputs, from_logits=True)
"""


def first_loss(spec: str) -> float:
    """The loss of the example batch before training."""
    return float(gradients(build_task(spec), tf.zeros((2,), tf.int32))[0])


def loss_by_keras(*compiled: str) -> float:
    """The loss that `keras.Model.train_on_batch` computes; `compiled` are the code of model, loss and batch."""
    namespace: dict[str, object] = {}
    exec(HEADER, namespace)
    model, loss, batch = (eval(part, namespace) for part in compiled)
    model.compile("sgd", loss)
    return float(model.train_on_batch(*batch))


@pytest.mark.parametrize(
    ("model", "loss", "batch"),
    [
        ("model()", "per_example", "(X, LABELS)"),
        ("model(1)", "squares", "(X, REAL)"),
        ("model(1)", "squares", "(X, REAL[:, None])"),
        ("model(2)", "squares", "(X, np.stack([REAL, REAL], 1))"),
        ("model(1)", "keras.losses.mean_absolute_error", "(X, REAL)"),
        ("model(1)", "'MeanSquaredError'", "(X, REAL)"),
        ("model(1)", "keras.losses.MeanSquaredError", "(X, REAL)"),
        ("model()", "CROSS", "(X, LABELS, WEIGHTS)"),
        ("model()", "per_example", "(X, LABELS, WEIGHTS)"),
        ("model(1)", "'mse'", "(X, REAL, WEIGHTS)"),
        ("model(1)", "squares", "(X, REAL, WEIGHTS)"),
    ],
)
def test_losses_have_the_value_that_keras_gives_them(written, model: str, loss: str, batch: str) -> None:
    spec = written(f"return {model}, {loss}, {batch}", header=HEADER)
    keras_form = "keras.losses.get('MeanSquaredError')" if loss == "keras.losses.MeanSquaredError" else loss
    assert first_loss(spec) == pytest.approx(loss_by_keras(model, keras_form, batch), rel=1e-5)


@pytest.mark.parametrize(
    "returned",
    [
        "compiled(), (X, REAL)",
        "[compiled(), [X, REAL]]",
        "compiled(), None, (X, REAL)",
        "model(1), 'mse', (X, REAL), 'sgd'",
        "model(1), 'mse', (X, REAL), keras.optimizers.SGD",
        "model(1), 'mse', (X, REAL), keras.optimizers.serialize(keras.optimizers.SGD())",
        "model(1), 'mse', tf.data.Dataset.from_tensor_slices((X, REAL)).batch(6).repeat(), 'sgd'",
        "model(1), 'mse', iter([(X, REAL)]), 'sgd'",
        "model(1), {'class_name': 'MeanSquaredError', 'config': {}}, (X, REAL), 'sgd'",
    ],
)
def test_models_optimizers_and_batches_are_taken_in_the_forms_of_keras(written, returned: str) -> None:
    spec = written(f"return {returned}", header=HEADER)
    task = build_task(spec)
    assert type(task.optimizer).__name__ == "SGD"
    assert task.batch_size == 6
    assert first_loss(spec) == pytest.approx(first_loss(written("return model(1), 'mse', (X, REAL)", header=HEADER)))


@pytest.mark.parametrize(
    ("returned", "sentence"),
    [
        (
            "compiled()",
            r"must return an example batch with the model, as \(model, \(inputs, targets\)\)",
        ),
        ("model(1), (X, REAL)", r"The optimizer of '.*' must be given, or the model be compiled with it|The loss of"),
        ("model(1), 'mse', tf.data.Dataset.range(0)", r"must have at least one batch, but has none"),
        ("model(1), 'mse', tf.data.Dataset.range(9)", r"or a data set of them, not tensorflow\..*EagerTensor"),
        ("model(1), 'mse', tf.data.Dataset.from_tensor_slices((X, REAL))", r"the batch size as first dimension"),
        ("model(1), 'mse', (X, REAL), 'adamant'", r"must be one that Keras knows, such as 'adam', not 'adamant'"),
        ("model(1), lambda y, z: keras.ops.mean((y - z) ** 2), (X, REAL)", r"must get targets and outputs of one rank"),
        ("model(1), lambda y, z: tf.reduce_mean(y), (X, REAL, WEIGHTS)", r"must give a value for each example where"),
        ("object(), 'mse', (X, REAL)", r"must be a keras\.Model, since autosync trains Keras models on TensorFlow"),
    ],
)
def test_other_forms_are_refused_with_the_remedy(written, returned: str, sentence: str) -> None:
    with pytest.raises(ModelError, match=sentence):
        build_task(written(f"return {returned}", header=HEADER))


def test_a_torch_module_is_refused_as_one(written) -> None:
    spec = written("import torch", "return torch.nn.Sequential(), 'mse', (X, REAL)", header=HEADER)
    with pytest.raises(ModelError, match=r"returns a PyTorch module, but the framework tensorflow needs a Keras model"):
        build_task(spec)


@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_distribute_blames_another_back_end_and_not_the_model(backend: str) -> None:
    """Only the name of the back end is read, so the back end need not be installed."""
    program = f"""
import os, types, sys
os.environ["KERAS_BACKEND"] = {backend!r}
if {backend!r} == "torch":
    import keras
import autosync
from autosync.errors import ModelError
try:
    autosync.distribute(None, "mse", "sgd")
except ModelError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert f"Keras must run on TensorFlow here, but its back end is '{backend}'" in done.stdout, done.stderr
    assert "KERAS_BACKEND=tensorflow" in done.stdout


def test_masked_outputs_are_left_out_of_a_named_loss(written) -> None:
    header = (
        HEADER
        + """
def masked():
    keras.utils.set_random_seed(0)
    return keras.Sequential([keras.layers.Embedding(5, 4, mask_zero=True), keras.layers.Dense(1)])

IDS = np.asarray([[1, 2, 0], [3, 1, 0]])
"""
    )
    namespace: dict[str, object] = {}
    exec(header, namespace)
    model = namespace["masked"]()  # type: ignore[operator]
    targets = np.ones((2, 3, 1), "float32")
    model.compile("sgd", "mse")
    expected = model.train_on_batch(namespace["IDS"], targets)
    spec = written("return masked(), 'mse', (IDS, np.ones((2, 3, 1), 'float32'))", header=header)
    assert first_loss(spec) == pytest.approx(float(expected), rel=1e-5)
    assert keras.backend.backend() == "tensorflow"
