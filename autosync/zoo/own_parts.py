"""Resolves models, losses and optimizers in the forms of Keras users: compiled, by name, by config, or as objects."""

from __future__ import annotations

from typing import Any

import keras

from autosync.errors import ModelError

CALLED = ("The model", "The loss", "The optimizer")
"""Names of model, loss and optimizer in error messages."""


def resolve_parts(model: Any, loss: Any, optimizer: Any, called: tuple[str, str, str] = CALLED) -> tuple[Any, Any]:
    """(loss, optimizer) of `model`: the arguments, or for None the ones that `model` is compiled with.

    An optimizer may be a name, a config or a class. A loss stays in its form. Raises `ModelError`.
    """
    if not isinstance(model, keras.Model):
        raise ModelError(
            f"{called[0]} must be a keras.Model, since autosync trains Keras models on TensorFlow, not "
            f"{class_name(model)}."
        )
    if loss is None:
        loss = _from_compile(model, "loss", called[1])
    if optimizer is None:
        optimizer = _from_compile(model, "optimizer", called[2])
    return loss, _optimizer(optimizer, called[2])


def class_name(value: Any) -> str:
    """The class of `value` with its module, such as torch.nn.modules.container.Sequential."""
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _optimizer(optimizer: Any, optimizer_is: str) -> Any:
    if isinstance(optimizer, str | dict | type):
        try:
            optimizer = keras.optimizers.get(optimizer() if isinstance(optimizer, type) else optimizer)
        except (TypeError, ValueError) as error:
            raise ModelError(
                f"{optimizer_is} must be one that Keras knows, such as 'adam', not {optimizer!r}."
            ) from error
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        raise ModelError(f"{optimizer_is} must be a keras.optimizers.Optimizer, not {class_name(optimizer)}.")
    return optimizer


def _from_compile(model: Any, name: str, part_is: str) -> Any:
    """The loss or optimizer that `model` is compiled with."""
    part = getattr(model, name, None)
    if part is None:
        raise ModelError(f"{part_is} must be given, or the model be compiled with it, as model.compile({name}=...).")
    return part
