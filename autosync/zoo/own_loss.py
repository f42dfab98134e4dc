"""Turns a user's loss, in any form that Keras accepts, into a function that returns the mean over a batch."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import keras

from autosync.engine.tensorflow.training.several_losses import are_several, loss_weights_of, sum_losses
from autosync.errors import ModelError

MEANS = ("sum_over_batch_size", "mean")
"""Keras's names of reductions that divide by the number of examples, not by the sum of their weights."""


def loss_function(
    name: str, loss: Any, loss_is: str, weighted: bool = False, model: Any = None
) -> Callable[[Any, Any], Any]:
    """Return `loss` as a function (targets, outputs) -> float32, the mean over the batch. Raises `ModelError`.

    `loss` is a Keras loss, its class, name or config, or a function. Results of a function that are not scalars are
    averaged, as in Keras; a Keras loss without a reduction keeps its rank. If `weighted`, targets are pairs (targets,
    weights of examples). `name` and `loss_is` name the model and the loss in errors. Losses of several outputs, and
    loss weights with which `model` is compiled, are summed up as in Keras.
    """
    weights = loss_weights_of(model, loss)
    if are_several(loss) or weights is not None:
        for leaf in keras.tree.flatten(loss) if are_several(loss) else ():
            if leaf is not None:
                _find_loss(name, leaf, loss_is)
        if weighted:
            raise ModelError(f"{loss_is} must be one loss where examples have weights, without loss_weights.")
        return sum_losses(model, loss, weights)
    loss_object = _find_loss(name, loss, loss_is)
    if weighted:
        return _loss_with_weights(loss_object, loss_is)
    if isinstance(loss_object, keras.losses.Loss):
        return lambda targets, outputs: keras.ops.cast(loss_object(targets, outputs), "float32")
    by_keras = _ByKeras(loss_object)

    def mean(targets: Any, outputs: Any) -> Any:
        value = loss_object(targets, outputs)
        if not len(value.shape):
            return keras.ops.cast(value, "float32")
        if getattr(outputs, "_keras_mask", None) is not None or _align(targets, outputs) is not None:
            value = by_keras(targets, outputs)
        return keras.ops.cast(keras.ops.mean(value), "float32")

    return mean


def _find_loss(name: str, loss: Any, loss_is: str) -> Any:
    """The loss object or function of a name, config or class."""
    try:
        loss_object = keras.losses.get(loss) if isinstance(loss, str | dict | type) else loss
    except (TypeError, ValueError) as error:
        raise ModelError(f"{name!r} names the loss {loss!r}, which Keras does not know.") from error
    if not callable(loss_object):
        raise ModelError(
            f"{loss_is} must be a loss, that is a callable (targets, outputs) -> scalar or a Keras loss's name, "
            f"not {type(loss).__name__}."
        )
    return loss_object


def _loss_with_weights(loss: Any, loss_is: str) -> Callable[[Any, Any], Any]:
    """`loss` as a function of ((targets, weights), outputs)."""
    is_keras_own = isinstance(loss, keras.losses.Loss)
    if is_keras_own and loss.reduction not in MEANS:
        raise ModelError(
            f"{loss_is} must have the reduction {MEANS[0]!r} where examples have weights, not {loss.reduction!r}."
        )
    by_keras = loss if is_keras_own else _ByKeras(loss)

    def mean(targets: Any, outputs: Any) -> Any:
        values, weights = targets
        if isinstance(values, tuple | list | dict):
            raise ModelError("Weights of examples are for one array of targets; give each of several losses its own.")
        if not is_keras_own and not len(loss(values, outputs).shape):
            raise ModelError(
                f"{loss_is} must give a value for each example where examples have weights, not one for the batch; "
                "leave the mean out, or take a loss of Keras."
            )
        return keras.ops.cast(by_keras(values, outputs, sample_weight=weights), "float32")

    return mean


class _ByKeras(keras.losses.Loss):  # type: ignore[misc]
    """Wraps a function as a Keras loss: ranks are aligned, masks and weights are applied, results are averaged."""

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        super().__init__(name="by_keras")
        self._function = function

    def call(self, y_true: Any, y_pred: Any) -> Any:
        return self._function(*(_align(y_true, y_pred) or (y_true, y_pred)))


def _align(targets: Any, outputs: Any) -> tuple[Any, Any] | None:
    """Targets and outputs of equal rank, if their ranks differ only by a last axis of length 1; None otherwise.

    As in Keras's wrapper of functions, an array of rank 1 gets the axis, and an array of higher rank loses it.
    """
    if not hasattr(targets, "shape") or not hasattr(outputs, "shape"):
        return None
    ranks = len(targets.shape), len(outputs.shape)
    longer, shorter = (targets, outputs) if ranks[0] > ranks[1] else (outputs, targets)
    if abs(ranks[0] - ranks[1]) != 1 or longer.shape[-1] != 1:
        return None
    if min(ranks) == 1:
        shorter = keras.ops.expand_dims(shorter, -1)
    else:
        longer = keras.ops.squeeze(longer, -1)
    return (longer, shorter) if ranks[0] > ranks[1] else (shorter, longer)


def check_alignment(loss: Any, loss_is: str, targets: Any, outputs: Any) -> None:
    """Raise `ModelError` if a scalar loss has another value for targets and outputs that Keras has aligned.

    Without alignment, `outputs` of shape (n, 1) minus `targets` of shape (n,) are n x n differences, in TensorFlow as
    in NumPy.
    """
    aligned = _align(targets, outputs)
    if aligned is None:
        return
    value = loss(targets, outputs)
    if len(value.shape):
        return
    try:
        by_keras = float(loss(*aligned))
    except Exception:  # any error of the user's own function
        by_keras = math.nan
    if not math.isclose(float(value), by_keras, rel_tol=1e-3, abs_tol=1e-5):
        raise ModelError(
            f"{loss_is} must get targets and outputs of one rank, but their shapes are {tuple(targets.shape)} and "
            f"{tuple(outputs.shape)}: its value is {float(value):.5g}, and {by_keras:.5g} with the ranks that Keras "
            "would give them; reshape the targets, or the model's outputs."
        )
