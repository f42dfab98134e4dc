"""Sums the losses of several outputs, given as lists or dictionaries with weights, like `keras.Model.compile`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras


def are_several(loss: Any) -> bool:
    """Whether `loss` is a structure of losses by output. A dictionary can also be the configuration of one loss."""
    return isinstance(loss, list | tuple) or (isinstance(loss, dict) and "class_name" not in loss)


def loss_weights_of(model: Any, loss: Any) -> Any:
    """Return the `loss_weights` that `model` is compiled with, or None if `model` is not compiled with `loss`."""
    if loss is None or getattr(model, "loss", None) is not loss:
        return None
    return getattr(getattr(model, "_compile_loss", None), "_user_loss_weights", None)


def sum_losses(model: Any, loss: Any, weights: Any) -> Callable[[Any, Any], Any]:
    """Return a function (targets, outputs) -> float32, the weighted sum of losses, as in a compiled `model`."""
    from keras.src.trainers.compile_utils import CompileLoss

    class Untracked(CompileLoss):  # type: ignore[misc]
        """Keeps no running mean of each loss, because that would be state outside the model."""

        def build(self, y_true: Any, y_pred: Any) -> None:
            super().build(y_true, y_pred)
            self._metrics[:] = [None] * len(self._flat_losses)

    names = getattr(model, "output_names", None)
    compiled = Untracked(loss, weights, output_names=names)
    return lambda targets, outputs: keras.ops.cast(compiled(targets, outputs), "float32")


def is_known_to_keras(loss: Any) -> bool:
    """Whether `loss`, or each of several losses, is a Keras loss or its name, so that a compiled model can be saved."""
    leaves = keras.tree.flatten(loss) if are_several(loss) else [loss]
    return all(leaf is None or isinstance(leaf, str | keras.losses.Loss) for leaf in leaves)
