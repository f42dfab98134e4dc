"""Losses of several outputs, as lists or dictionaries, and their weights: summed up as `keras.Model.compile` says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras


def are_several(loss: Any) -> bool:
    """Whether `loss` is a structure of losses by output; a dictionary may be the config of one loss."""
    return isinstance(loss, list | tuple) or (isinstance(loss, dict) and "class_name" not in loss)


def compiled_weights(model: Any, loss: Any) -> Any:
    """The `loss_weights` that `model` is compiled with, if `loss` is the loss that it is compiled with; else None."""
    if loss is None or getattr(model, "loss", None) is not loss:
        return None
    return getattr(getattr(model, "_compile_loss", None), "_user_loss_weights", None)


def summed_losses(model: Any, loss: Any, weights: Any) -> Callable[[Any, Any], Any]:
    """A function (targets, outputs) -> float32 of the losses `loss`, weighed, in the way of a compiled `model`."""
    from keras.src.trainers.compile_utils import CompileLoss

    class Untracked(CompileLoss):  # type: ignore[misc]
        """Keeps no mean of each loss, which would be state outside of the model."""

        def build(self, y_true: Any, y_pred: Any) -> None:
            super().build(y_true, y_pred)
            self._metrics[:] = [None] * len(self._flat_losses)

    names = getattr(model, "output_names", None)
    compiled = Untracked(loss, weights, output_names=names)
    return lambda targets, outputs: keras.ops.cast(compiled(targets, outputs), "float32")


def is_known_to_keras(loss: Any) -> bool:
    """Whether `loss`, or each of several, is a loss of Keras or its name, so that a compiled model can be saved."""
    leaves = keras.tree.flatten(loss) if are_several(loss) else [loss]
    return all(leaf is None or isinstance(leaf, str | keras.losses.Loss) for leaf in leaves)
