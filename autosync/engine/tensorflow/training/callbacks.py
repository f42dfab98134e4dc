"""Callbacks of `Trainer.fit`. Keras's own list calls them, and the model is up to date when they read it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, final

from autosync.errors import TrainingError

OLDER_NAMES = {"on_train_batch_begin": "on_batch_begin", "on_train_batch_end": "on_batch_end"}


class ModelMirror(Protocol):
    """A Keras model that can show the state of training, and whose changes training can take over."""

    @property
    def model(self) -> Any: ...

    def show(self) -> None:
        """Write the state of training into the model."""

    def take_over(self) -> None:
        """Continue training from variables that were set in the model."""


@dataclass(frozen=True)
class Extent:
    """The length of a call of `fit`, for callbacks: `epochs`, and `steps` an epoch; None if unknown."""

    epochs: int | None
    steps: int | None
    verbose: int = 0


@final
class Hooks:
    """`keras.callbacks.Callback`s, or any objects with some of their methods.

    The model holds the current weights at every hook that a callback has. At hooks of batches this copies all weights
    in each step; a callback whose class or object sets `reads_model = False` avoids the copy. Training continues with
    weights and learning rates that a callback sets. A callback that acts only after every N steps of training on the
    model's own batches may say so by `acts_every = N`; steps that overlap with the next forward pass need that.
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
        self._mirror: ModelMirror | None = None

    def __bool__(self) -> bool:
        return bool(self._callbacks)

    def introduce(self, trainer: Any, mirror: ModelMirror, extent: Extent) -> None:
        """Pass the trainer, the model and the length of training to the callbacks."""
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

    @property
    def borders(self) -> tuple[int, ...] | None:
        """The numbers of steps (`acts_every`) after which callbacks act in a pass; None if one acts at every batch."""
        every = [
            getattr(getattr(callback, "adapts", callback), "acts_every", None)
            for callback in self._callbacks
            if any(_has(callback, moment) for moment in OLDER_NAMES)
        ]
        return None if None in every else tuple(filter(None, every))

    def sees(self, moment: str) -> bool:
        """Whether a callback that may read the model has a method for `moment`."""
        if moment not in self._called:
            self._called[moment] = any(_reads(callback, moment) for callback in self._callbacks)
        return self._called[moment]

    def call(self, moment: str, *arguments: Any) -> None:
        """Call the method named `moment` of all callbacks, in order. Raises their errors, and `TrainingError`."""
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
    """Return `callback` as a `keras.callbacks.Callback`."""
    import keras

    if isinstance(callback, keras.callbacks.Callback):
        return callback
    if not any(name.startswith("on_") for name in dir(callback)):
        raise TrainingError(
            f"A callback must have methods such as on_train_batch_end(batch, logs), but {callback!r} has none."
        )
    return _adapt(callback)


def _adapt(callback: Any) -> Any:
    """Return a Keras callback that calls the methods of `callback`."""
    import keras

    adapted = keras.callbacks.Callback()
    adapted.adapts = callback
    for name in dir(callback):
        if name.startswith("on_"):
            method = getattr(callback, name)
            setattr(adapted, name, lambda *values, _method=method, **named: _method(*values, *named.values()))
    adapted.set_model = _in_sequence(adapted.set_model, getattr(callback, "set_model", None))
    adapted.set_params = _in_sequence(adapted.set_params, getattr(callback, "set_params", None))
    for name in ("set_trainer", "reads_model", "sets_model"):
        if hasattr(callback, name):
            setattr(adapted, name, getattr(callback, name))
    return adapted


def _in_sequence(first: Any, second: Any) -> Any:
    """Return a function that calls `first`, and then `second` unless it is None, with the function's argument."""

    def call(argument: Any) -> None:
        first(argument)
        if second is not None:
            second(argument)

    return call


def _reads(callback: Any, moment: str) -> bool:
    """Whether `callback` may read the model at `moment`."""
    if not _has(callback, moment) or not getattr(callback, "reads_model", True):
        return False
    return "batch" not in moment or not _is_keras_own(callback) or _reads_at_batches(callback)


def _sets(callback: Any, moment: str) -> bool:
    """Whether `callback` may set the model's weights or the learning rate at `moment`."""
    return bool(_has(callback, moment) and getattr(callback, "sets_model", True))


def _has(callback: Any, moment: str) -> bool:
    """Whether `callback` defines its own method for `moment`."""
    import keras

    names = [moment, *([OLDER_NAMES[moment]] if moment in OLDER_NAMES else [])]
    default = keras.callbacks.Callback
    return any(getattr(getattr(callback, name), "__func__", None) is not getattr(default, name) for name in names)


def _is_keras_own(callback: Any) -> bool:
    return type(callback).__module__.startswith("keras.") and not hasattr(callback, "adapts")


def _reads_at_batches(callback: Any) -> bool:
    """Whether one of Keras's own callbacks reads the model at batches, because it saves then or calls user functions.

    Keras's other callbacks (`ProgbarLogger`, `TerminateOnNaN`, `TensorBoard`, ...) only read `logs`.
    """
    import keras

    if isinstance(callback, keras.callbacks.LambdaCallback):
        return True
    return getattr(callback, "save_freq", "epoch") != "epoch"
