"""Callbacks in Keras' style, called at their moments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from autosync.train.training_error import TrainingError

__all__ = ["Hooks"]

OLDER_NAMES = {"on_train_batch_begin": "on_batch_begin", "on_train_batch_end": "on_batch_end"}


@final
class Hooks:
    """Callbacks are `keras.callbacks.Callback`s, or any objects with some of their methods."""

    def __init__(self, callbacks: Sequence[Any]) -> None:
        """Take `callbacks`. Raises `TrainingError` for an object without a method that could ever be called."""
        for each in callbacks:
            if not any(name.startswith("on_") for name in dir(each)):
                raise TrainingError(
                    f"A callback must have methods such as on_train_batch_end(batch, logs), but {each!r} has none."
                )
        self._callbacks = tuple(callbacks)

    def __bool__(self) -> bool:
        return bool(self._callbacks)

    def introduce(self, trainer: Any, steps: int | None) -> None:
        """Tell callbacks that want to know of the trainer, the model and the number of steps."""
        for each in self._callbacks:
            for setter, value in (
                ("set_trainer", trainer),
                ("set_model", trainer.model),
                ("set_params", {"verbose": 0, "epochs": 1, "steps": steps}),
            ):
                if hasattr(each, setter):
                    getattr(each, setter)(value)

    def call(self, moment: str, *arguments: Any) -> None:
        """Call the method named `moment` of all callbacks that have it, in order."""
        for each in self._callbacks:
            method = getattr(each, moment, None) or getattr(each, OLDER_NAMES.get(moment, moment), None)
            if method is not None:
                method(*arguments)
