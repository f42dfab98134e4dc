"""Finds methods of `Model.fit` that a model overrides, and refuses them or names them in a note."""

from __future__ import annotations

from typing import Any

from autosync.errors import ModelError
from autosync.words.quantities import few_of

TRAINING = (
    "train_step",
    "compute_loss",
    "make_train_function",
    "fit",
    "_compute_loss",
    "_make_function",
    "_aggregate_additional_loss",
    "trainable_weights",
    "trainable_variables",
)
"""Methods that decide a step's computation. autosync itself traces the forward pass, the loss and the optimizer's
update, and does not call these methods."""

REMEDIES = {
    "fit": "prepare the data before they are given to autosync",
    "trainable_weights": "set `trainable` of layers",
    "trainable_variables": "set `trainable` of layers",
    "compile": "give loss, optimizer and metrics to autosync",
}
"""Remedies for overrides; for all other methods, the computation belongs in the forward pass or the loss."""

REPORTING = ("compute_metrics", "get_metrics_result", "reset_metrics", "metrics")
"""Methods that decide only the numbers that training reports."""

CHOOSING_DEFAULTS = ("keras_hub.",)
"""Packages whose `compile` chooses defaults, and whose `fit` runs a preprocessor if the model has one."""


def notes_on_overrides(model: Any, model_is: str = "The model") -> tuple[str, ...]:
    """Return a note if the model overrides methods that decide the reported numbers.

    Raises `ModelError` if the model overrides a method that decides a step's computation; `model_is` begins the
    message.
    """
    for name in (*TRAINING, "compile"):
        if _is_overridden(model, name):
            raise ModelError(
                f"{model_is} must train by Keras's own {name}, but {type(model).__name__} overrides {name}, which "
                f"autosync does not call; {REMEDIES.get(name, 'put that computation into call, add_loss or the loss')} "
                "and leave the override out (for a functional model keras.Model(model.inputs, model.outputs) does)."
            )
    reporting = [name for name in REPORTING if _is_overridden(model, name)]
    if not reporting:
        return ()
    return (
        f"{type(model).__name__} overrides {few_of(reporting)}, which training does not call: the loss and the metrics "
        "that autosync.distribute was given are reported.",
    )


def _is_overridden(model: Any, name: str) -> bool:
    import keras

    if name in vars(model):
        return True
    method = getattr(type(model), name, None)
    if method is getattr(keras.Model, name, None):
        return False
    if name not in ("compile", "fit") or getattr(model, "preprocessor", None) is not None:
        return True
    return not getattr(method, "__module__", "").startswith(CHOOSING_DEFAULTS)
