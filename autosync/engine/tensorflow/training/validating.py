"""Computes the loss and metrics of validation data with Keras, in the caller's process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autosync.engine.tensorflow.training.keras_state import KerasState


def validate(
    keras_state: KerasState, data: Any, batch_size: int | None, steps: int | None, callbacks: Any
) -> dict[str, float]:
    """Evaluate the model on `data` with `keras.Model.evaluate`; return the results by names that begin with `val_`."""
    x, y, weight = _parts(data)
    with keras_state.compiled_with_loss() as model:
        logs = model.evaluate(
            x,
            y,
            sample_weight=weight,
            batch_size=batch_size,
            steps=steps,
            callbacks=callbacks,
            verbose=0,
            return_dict=True,
        )
    return {f"val_{name}": value for name, value in logs.items()}


def _parts(data: Any) -> tuple[Any, Any, Any]:
    """Return inputs, targets and weights. A list of batches becomes a generator, which Keras reads batch by batch."""
    import keras

    if isinstance(data, Sequence) and data and all(isinstance(batch, tuple) for batch in data):
        return (batch for batch in data), None, None
    inputs, targets, weight = keras.utils.unpack_x_y_sample_weight(data)
    return inputs, targets, weight
