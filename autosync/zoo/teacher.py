"""Classification by a random teacher: an endless stream of examples with known noise and known least loss."""

import math
from typing import Any

import keras
import numpy as np

from autosync.engine.tensorflow.capture.task import TrainingTask
from autosync.zoo.drawing import arrays_of
from autosync.zoo.losses import cross_entropy

INPUTS = 20
CLASSES = 10
BATCH_SIZE = 16
DRAWN = 0.1
"""The share of labels that are drawn uniformly from all classes instead of the teacher's class."""

_RIGHT, _WRONG = 1 - DRAWN + DRAWN / CLASSES, DRAWN / CLASSES
LEAST_LOSS = -_RIGHT * math.log(_RIGHT) - (CLASSES - 1) * _WRONG * math.log(_WRONG)
"""The mean loss of the teacher itself, 0.500 (Bayes)."""


def build(name: str) -> TrainingTask:
    """Dense layers 20-64-10, trained by gradient descent with momentum; a random quadratic form is the teacher."""
    features = keras.Input((INPUTS,), name="features")
    x = keras.layers.Dense(64, "tanh", name="hidden")(features)
    return TrainingTask(
        name=name,
        model=keras.Model(features, keras.layers.Dense(CLASSES, name="logits")(x), name=name),
        loss=cross_entropy,
        optimizer=keras.optimizers.SGD(0.1, momentum=0.9, name="sgd"),
        batch_size=BATCH_SIZE,
        batch=_batch,
        any_batch_size=True,
    )


def _batch(seed: Any) -> tuple[Any, Any]:
    draw = np.random.default_rng(7)  # the teacher is the same each time
    first = draw.normal(size=(INPUTS, 32)).astype("float32")
    second = draw.normal(size=(32, CLASSES)).astype("float32")
    on = arrays_of(seed)
    of_features, of_chance, of_labels = on.split(seed, 3)
    features = on.normal(of_features, (BATCH_SIZE, INPUTS))
    taught = on.argmax(on.square(features @ first) @ second)
    drawn = on.below(of_labels, (BATCH_SIZE,), CLASSES)
    return features, on.where(on.uniform(of_chance, (BATCH_SIZE,)) < DRAWN, drawn, taught)
