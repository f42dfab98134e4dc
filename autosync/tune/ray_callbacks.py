"""The caller's callbacks of Ray Tune, for MLflow or Weights & Biases for example, in the experiment of a search."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from ray.tune import Callback
from ray.tune.callback import CallbackList

from autosync.errors import AutosyncError

HOOKS = ("setup", *(name for name in vars(Callback) if name.startswith("on_")))
"""The methods that Tune calls during an experiment."""


def callback_error(callback: object, error: Exception) -> AutosyncError:
    """The error that ends a search after `callback` has raised `error`."""
    name = getattr(callback, "__name__", type(callback).__name__)
    return AutosyncError(
        f"The callback {name!r} failed, so the search ended: {type(error).__name__}: {error}. All finished trials are "
        "kept; correct the callback, and continue with resume=True."
    )


@final
class CheckedCallback(CallbackList):
    """Calls a callback until it fails, and passes its error to `fail`; Tune would log some errors and go on."""

    def __init__(self, callback: Callback, fail: Callable[[AutosyncError], object]) -> None:
        super().__init__([callback])
        self._fail = fail

    def __getattribute__(self, name: str) -> Any:
        method = super().__getattribute__(name)
        return self._checked(method) if name in HOOKS else method

    def _checked(self, method: Callable[..., None]) -> Callable[..., None]:
        def call(**info: Any) -> None:
            try:
                method(**info)
            except Exception as error:
                (failed,), self._callbacks = self._callbacks, []
                self._fail(callback_error(failed, error))

        return call

    def __reduce__(self) -> tuple[Any, ...]:
        """Tune pickles callbacks next to its results; a restored experiment only shows results and needs none."""
        return CallbackList, ([],)
