"""Training under a strategy and by `keras.Model.fit` on the same data, to compare weights and logs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import autosync
from autosync.train import Trainer
from tests.train.models import LOSS, all_reduce, batches, classifier

__all__ = ["DATA", "arrays", "assert_alike", "dataset", "keras_fit", "new_trainer", "plain_model"]

SIZES = (12, 12, 9)
DATA = list(batches(SIZES))


def arrays() -> tuple[Any, Any]:
    """Return all examples of `DATA` in two arrays."""
    return tuple(np.concatenate([batch[side] for batch in DATA]) for side in (0, 1))  # type: ignore[return-value]


def plain_model(optimizer: Any = None, metrics: Sequence[Any] = ()) -> Any:
    """The classifier, compiled by Keras."""
    model = classifier()
    model.compile(optimizer or keras.optimizers.Adam(0.02), LOSS, metrics=list(metrics) or None)
    return model


def new_trainer(optimizer: Any = None, metrics: Sequence[Any] = (), loss: Any = LOSS) -> Trainer:
    """A trainer of the same classifier on three logical devices."""
    model = classifier()
    optimizer = optimizer or keras.optimizers.Adam(0.02)
    return autosync.distribute(model, loss, optimizer, all_reduce(model), backend="local", metrics=list(metrics))


def dataset() -> Any:
    """`DATA` for Keras, with its number of batches: without that, Keras' optimizers count a step too many at the end of
    a pass.
    """
    signature = (tf.TensorSpec((None, 6), tf.float32), tf.TensorSpec((None,), tf.int64))
    return tf.data.Dataset.from_generator(lambda: iter(DATA), output_signature=signature).apply(
        tf.data.experimental.assert_cardinality(len(DATA))
    )


def keras_fit(callbacks: Callable[[], Sequence[Any]], model: Any = None, **arguments: Any) -> tuple[Any, Any]:
    """(model, history) of `keras.Model.fit` on `DATA`."""
    model = model or plain_model()
    return model, model.fit(dataset(), callbacks=list(callbacks()), verbose=0, **arguments)


def assert_alike(trained: Any, plain: Any, optimizers: bool = True) -> None:
    """Both models hold the same weights, and their optimizers the same slots, to 1e-5."""
    for weight, another in zip(trained.weights, plain.weights, strict=True):
        np.testing.assert_allclose(weight.numpy(), another.numpy(), rtol=1e-5, atol=1e-6)
    if optimizers:
        for weight, another in zip(trained.optimizer.variables, plain.optimizer.variables, strict=True):
            np.testing.assert_allclose(weight.numpy(), another.numpy(), rtol=1e-5, atol=1e-6)
