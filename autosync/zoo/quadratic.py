"""A quadratic with noise, on which the result of gradient descent is known in closed form."""

from typing import Any

import keras
import numpy as np

from autosync.engine.tensorflow.capture.task import TrainingTask
from autosync.zoo.drawing import arrays_of

CURVATURES = np.logspace(0, -2, 50).astype("float32")
BATCH_SIZE = 16
LEARNING_RATE = 0.5


class _Distance(keras.layers.Layer):  # type: ignore[misc]  # Keras has no types
    """The difference between a learned point, which starts at 1 in all directions, and each example."""

    def build(self, shape: Any) -> None:
        self.point = self.add_weight(shape=(shape[-1],), initializer="ones", name="point")

    def call(self, examples: Any) -> Any:
        return self.point - examples


def build(name: str) -> TrainingTask:
    """Gradient descent to the point w with the least mean of sum_i h_i (w_i - x_i)^2 / 2 over examples x.

    Examples have mean 0 and unit variance. Without the unavoidable sum(h) / 2, the expected loss is
    sum_i h_i w_i^2 / 2. Each step changes w_i to (1 - 0.5 h_i) w_i + 0.5 h_i m_i, where m_i, the mean of the step's n
    examples, has variance 1 / n.
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
