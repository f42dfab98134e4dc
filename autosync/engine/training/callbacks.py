"""Callbacks of `Trainer.fit`: Keras' own list calls them, and the model is current where they look at it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, final

from autosync.errors import TrainingError

OLDER_NAMES = {"on_train_batch_begin": "on_batch_begin", "on_train_batch_end": "on_batch_end"}


class Mirror(Protocol):
    """A model that shows training's state when asked, and whose changes training takes over."""

    @property
    def model(self) -> Any: ...

    def show(self) -> None:
        """Let the model hold training's state."""

    def take_over(self) -> None:
        """Continue training from the variables set in the model."""


@dataclass(frozen=True)
class Extent:
    """The length of a call of `fit`, as callbacks are told: `epochs`, and `steps` of an epoch; None if unknown."""

    epochs: int | None
    steps: int | None
    verbose: int = 0


@final
class Hooks:
    """`keras.callbacks.Callback`s, or any objects with some of their methods.

    The model holds the current weights at every hook that a callback has; at hooks of batches this moves all weights
    in each step, so a callback whose class or object says `reads_model = False` does without. Weights and learning
    rates that a callback sets hold from then on.
    """

    def __init__(self, callbacks: Any, verbose: int = 0) -> None:
        """Take `callbacks`, a callback or nested lists of them. Raises `TrainingError` for any other object."""
        self._callbacks = [_as_keras(callback) for callback in _flat(callbacks)]
        if verbose:
            import keras

            self._callbacks.append(keras.callbacks.ProgbarLogger())
        self._verbose = verbose
        self._called: dict[str, bool] = {}
        self._list: Any = None
        self._mirror: Mirror | None = None

    def __bool__(self) -> bool:
        return bool(self._callbacks)

    def introduce(self, trainer: Any, mirror: Mirror, extent: Extent) -> None:
        """Tell callbacks the trainer, the model and the length of training."""
        if not self._callbacks:
            return
        import keras

        self._mirror = mirror
        for callback in self._callbacks:
            if hasattr(callback, "set_trainer"):
                callback.set_trainer(trainer)
        self._list = keras.callbacks.CallbackList(
            self._callbacks,
            add_history=True,
            model=mirror.model,
            verbose=self._verbose,
            epochs=1 if extent.epochs is None else extent.epochs,
            steps=extent.steps,
        )

    @property
    def of_evaluation(self) -> Any:
        """The callbacks for `keras.Model.evaluate`."""
        return self._list

    def sees(self, moment: str) -> bool:
        """Whether a callback that may read the model has a method for `moment`."""
        if moment not in self._called:
            self._called[moment] = any(_reads(callback, moment) for callback in self._callbacks)
        return self._called[moment]

    def call(self, moment: str, *arguments: Any) -> None:
        """Call the method named `moment` of all callbacks, in order. Their errors pass; also raises `TrainingError`."""
        if self._list is None or self._mirror is None:
            return
        if self.sees(moment):
            self._mirror.show()
        getattr(self._list, moment)(*arguments)
        if any(_sets(callback, moment) for callback in self._callbacks):
            self._mirror.take_over()


def _flat(callbacks: Any) -> list[Any]:
    if callbacks is None:
        return []
    if isinstance(callbacks, Sequence):
        return [flat for nested in callbacks for flat in _flat(nested)]
    return [callbacks]


def _as_keras(callback: Any) -> Any:
    """`callback` as a `keras.callbacks.Callback`."""
    import keras

    if isinstance(callback, keras.callbacks.Callback):
        return callback
    if not any(name.startswith("on_") for name in dir(callback)):
        raise TrainingError(
            f"A callback must have methods such as on_train_batch_end(batch, logs), but {callback!r} has none."
        )
    return _adapted(callback)


def _adapted(callback: Any) -> Any:
    """A Keras callback that calls those methods which `callback` has."""
    import keras

    adapted = keras.callbacks.Callback()
    adapted.adapts = callback
    for name in dir(callback):
        if name.startswith("on_"):
            method = getattr(callback, name)
            setattr(adapted, name, lambda *given, _method=method, **named: _method(*given, *named.values()))
    adapted.set_model = _both(adapted.set_model, getattr(callback, "set_model", None))
    adapted.set_params = _both(adapted.set_params, getattr(callback, "set_params", None))
    for name in ("set_trainer", "reads_model", "sets_model"):
        if hasattr(callback, name):
            setattr(adapted, name, getattr(callback, name))
    return adapted


def _both(first: Any, second: Any) -> Any:
    """A function that calls `first`, and `second` if there is one, with its argument."""

    def called(argument: Any) -> None:
        first(argument)
        if second is not None:
            second(argument)

    return called


def _reads(callback: Any, moment: str) -> bool:
    """Whether `callback` may read the model at `moment`."""
    if not _has(callback, moment) or not getattr(callback, "reads_model", True):
        return False
    return "batch" not in moment or not _is_keras_own(callback) or _reads_at_batches(callback)


def _sets(callback: Any, moment: str) -> bool:
    """Whether `callback` may set the model's weights or the learning rate at `moment`."""
    return bool(_has(callback, moment) and getattr(callback, "sets_model", True))


def _has(callback: Any, moment: str) -> bool:
    """Whether `callback` has a method of its own for `moment`."""
    import keras

    names = [moment, *([OLDER_NAMES[moment]] if moment in OLDER_NAMES else [])]
    default = keras.callbacks.Callback
    return any(getattr(getattr(callback, name), "__func__", None) is not getattr(default, name) for name in names)


def _is_keras_own(callback: Any) -> bool:
    return type(callback).__module__.startswith("keras.") and not hasattr(callback, "adapts")


def _reads_at_batches(callback: Any) -> bool:
    """Whether a callback of Keras' own reads the model at batches: if it saves then, or calls functions of the user's.

    The others (`ProgbarLogger`, `TerminateOnNaN`, `TensorBoard`, ...) only read `logs`.
    """
    import keras

    if isinstance(callback, keras.callbacks.LambdaCallback):
        return True
    return getattr(callback, "save_freq", "epoch") != "epoch"
