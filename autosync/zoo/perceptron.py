"""A multi-layer perceptron small enough for tests: 13 000 parameters, smooth activations, a prime width."""

from functools import partial

import keras

from autosync.engine.tensorflow.capture.task import TrainingTask
from autosync.zoo.batches import features_batch
from autosync.zoo.losses import cross_entropy
from autosync.zoo.sizes import PERCEPTRON


def build(name: str) -> TrainingTask:
    """Dense layers 64-96-61-10, trained by gradient descent with momentum; the class is the largest of ten inputs."""
    size = PERCEPTRON
    features = keras.Input(batch_shape=(size.batch_size, size.inputs), name="features")
    x = keras.layers.Dense(size.hidden[0], "tanh", name="dense_0")(features)
    x = keras.layers.Dense(size.hidden[1], "gelu", name="dense_1")(x)
    return TrainingTask(
        name=name,
        model=keras.Model(features, keras.layers.Dense(size.classes, name="logits")(x), name=name),
        loss=cross_entropy,
        optimizer=keras.optimizers.SGD(size.learning_rate, momentum=0.9, name="sgd"),
        batch_size=size.batch_size,
        batch=partial(features_batch, size=size),
    )
