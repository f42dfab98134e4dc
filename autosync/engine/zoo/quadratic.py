"""A quadratic with noise: what gradient descent reaches on it is known in closed form."""

from typing import Any

import keras
import numpy as np

from autosync.engine.capture.task import TrainingTask
from autosync.engine.zoo.drawing import arrays_of

CURVATURES = np.logspace(0, -2, 50).astype("float32")
BATCH_SIZE = 16
LEARNING_RATE = 0.5


class _Distance(keras.layers.Layer):  # type: ignore[misc]  # Keras has no types
    """How far each example is from one point, which is learnt; it starts at 1 in all directions."""

    def build(self, shape: Any) -> None:
        self.point = self.add_weight(shape=(shape[-1],), initializer="ones", name="point")

    def call(self, examples: Any) -> Any:
        return self.point - examples


def build(name: str) -> TrainingTask:
    """The point w of least sum of h_i (w_i - x_i)^2 / 2 over examples x of unit variance about 0, by gradient descent.

    Less sum(h) / 2, which no point avoids, the expected loss is sum of h_i w_i^2 / 2. Each step takes w_i to
    (1 - 0.5 h_i) w_i + 0.5 h_i m_i, where m_i, the mean of the step's n examples, has variance 1 / n.
    """
    examples = keras.Input((len(CURVATURES),), name="examples")
    return TrainingTask(
        name=name,
        model=keras.Model(examples, _Distance(name="distance")(examples), name=name),
        loss=_loss,
        optimizer=keras.optimizers.SGD(LEARNING_RATE, name="sgd"),
        batch_size=BATCH_SIZE,
        batch=_batch,
        any_batch_size=True,
    )


def _loss(_targets: Any, distances: Any) -> Any:
    squares = keras.ops.mean(keras.ops.square(distances), axis=0)
    return keras.ops.sum(CURVATURES * (squares - 1.0)) / 2.0


def _batch(seed: Any) -> tuple[Any, Any]:
    on = arrays_of(seed)
    examples = on.normal(seed, (BATCH_SIZE, len(CURVATURES)))
    return examples, examples[:, :1]
