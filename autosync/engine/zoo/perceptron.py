"""A multi-layer perceptron small enough for tests: 13 000 parameters, smooth activations, a width that is prime."""

from typing import Any

import keras

from autosync.engine.capture.task import TrainingTask
from autosync.engine.zoo.drawing import arrays_of
from autosync.engine.zoo.losses import cross_entropy

INPUTS = 64
CLASSES = 10
BATCH_SIZE = 8


def build(name: str) -> TrainingTask:
    """Dense layers 64-96-61-10, trained by gradient descent with momentum; the class is the largest of ten inputs."""
    features = keras.Input(batch_shape=(BATCH_SIZE, INPUTS), name="features")
    x = keras.layers.Dense(96, "tanh", name="dense_0")(features)
    x = keras.layers.Dense(61, "gelu", name="dense_1")(x)
    return TrainingTask(
        name=name,
        model=keras.Model(features, keras.layers.Dense(CLASSES, name="logits")(x), name=name),
        loss=cross_entropy,
        optimizer=keras.optimizers.SGD(0.05, momentum=0.9, name="sgd"),
        batch_size=BATCH_SIZE,
        batch=_batch,
    )


def _batch(seed: Any) -> tuple[Any, Any]:
    on = arrays_of(seed)
    features = on.normal(seed, (BATCH_SIZE, INPUTS))
    return features, on.argmax(features[:, :CLASSES])
