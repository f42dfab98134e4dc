"""A training task from a user's own function, named as `package.module:function`."""

from __future__ import annotations

import importlib
import os
import sys
import sysconfig
import traceback
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any

from autosync.engine.task import TrainingTask
from autosync.engine.zoo.example_batch import ExampleBatch
from autosync.engine.zoo.repeatable import repeatable_build
from autosync.errors import ModelError

__all__ = ["task_from_function"]

LEARNING_RATE = 1e-3
"""Of the Adam that trains a model whose function names no optimizer."""


def task_from_function(spec: str) -> TrainingTask:
    """The task made from what `package.module:function` returns when called without arguments.

    That is (keras_model, loss, (inputs, targets)), and as a fourth item a Keras optimizer if Adam at 1e-3 will not do.
    The loss is a callable (targets, outputs) -> scalar, a Keras loss, or the name of one, then averaged over the batch.
    The example batch holds NumPy arrays or tensors whose first axis counts examples; each replica's batch is that one
    again, rolled along the first axis by the seed.

    The current directory can be imported from, now and when the model is traced later. The function is called where
    unseeded Keras weights come out the same each time; seed whatever else it draws. One forward and backward pass is
    made to see that the task can be trained. Raises `ModelError`.
    """
    function = _function(spec)
    with repeatable_build():
        returned = _called(spec, function)
        model, loss, example, optimizer = _parts(spec, returned)
        batch = ExampleBatch.from_pair(spec, example)
        _build(spec, model, batch)
    task = TrainingTask(spec, model, _loss(spec, loss), optimizer, batch.batch_size, batch)
    _check_trainable(task)
    return task


def _function(spec: str) -> Callable[[], Any]:
    module_name, _, function_name = spec.partition(":")
    if not module_name or not function_name.isidentifier():
        raise ModelError(f"A model of your own is named as package.module:function, not {spec!r}.")
    function: Callable[[], Any] | None = getattr(_module(spec, module_name), function_name, None)
    if function is None or not callable(function):
        raise ModelError(
            f"Module {module_name!r} must have a function {function_name!r} that returns (model, loss, batch), "
            "but has none of that name."
        )
    return function


def _module(spec: str, name: str) -> ModuleType:
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise ModelError(
                f"{spec!r} needs a module {name!r}, but {error.name!r} was found neither in the current directory "
                f"({os.getcwd()}) nor among the installed packages; check the name or change the directory."
            ) from error
        raise ModelError(f"Importing {name!r} for {spec!r} failed: {_blame(error)}.") from error
    except Exception as error:
        raise ModelError(f"Importing {name!r} for {spec!r} failed: {_blame(error)}.") from error


def _called(spec: str, function: Callable[[], Any]) -> Any:
    try:
        return function()
    except Exception as error:
        raise ModelError(f"The function {spec!r}, called without arguments, failed: {_blame(error)}.") from error


def _parts(spec: str, returned: Any) -> tuple[Any, Any, Any, Any]:
    import keras

    if not isinstance(returned, tuple) or len(returned) not in (3, 4):
        what = f"a tuple of {len(returned)}" if isinstance(returned, tuple) else type(returned).__name__
        raise ModelError(
            f"{spec!r} must return (keras_model, loss, (inputs, targets)) with an optimizer as fourth item if any, "
            f"but returned {what}."
        )
    model, loss, example = returned[:3]
    optimizer = returned[3] if len(returned) == 4 else keras.optimizers.Adam(LEARNING_RATE, name="adam")
    if not isinstance(model, keras.Model):
        raise ModelError(f"The first item {spec!r} returns must be a keras.Model, not {type(model).__name__}.")
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        raise ModelError(
            f"The fourth item {spec!r} returns must be a keras.optimizers.Optimizer, not {type(optimizer).__name__}."
        )
    return model, loss, example, optimizer


def _build(spec: str, model: Any, batch: ExampleBatch) -> None:
    if model.built:
        return
    try:
        model(batch.inputs())
    except Exception as error:
        raise ModelError(
            f"The model that {spec!r} returns is not built, and calling it on the example inputs failed: "
            f"{_blame(error)}."
        ) from error


def _loss(spec: str, loss: Any) -> Callable[[Any, Any], Any]:
    """`loss` as a function to a float32 tensor; a named loss is averaged, all others are left at the rank they have."""
    import keras
    import tensorflow as tf

    if isinstance(loss, str):
        try:
            named = keras.losses.get(loss)
        except ValueError as error:
            raise ModelError(f"{spec!r} names the loss {loss!r}, which Keras does not know.") from error
        return lambda targets, outputs: tf.cast(tf.reduce_mean(named(targets, outputs)), tf.float32)
    if not callable(loss):
        raise ModelError(
            f"The second item {spec!r} returns must be a loss, that is a callable (targets, outputs) -> scalar or a "
            f"Keras loss's name, not {type(loss).__name__}."
        )
    return lambda targets, outputs: tf.cast(loss(targets, outputs), tf.float32)


def _check_trainable(task: TrainingTask) -> None:
    """Train on the example batch once, and raise `ModelError` where that shows what could not be captured."""
    import numpy as np
    import tensorflow as tf

    from autosync.engine.zoo.gradients import gradients

    if not task.model.trainable_variables:
        raise ModelError(f"The model of {task.name!r} has no trainable variables, so there is nothing to synchronize.")
    try:
        loss, found = gradients(task, tf.zeros((2,), tf.int32))
    except Exception as error:
        raise ModelError(f"The model or loss of {task.name!r} fails on the example batch: {_blame(error)}.") from error
    if loss.shape.rank != 0:
        raise ModelError(
            f"The loss of {task.name!r} must be a scalar, but has shape {tuple(loss.shape)}; "
            "take its mean over the batch."
        )
    if not np.isfinite(float(loss)):
        raise ModelError(
            f"The loss of {task.name!r} must be finite, but is {float(loss)} on the example batch; check the batch."
        )
    if all(each is None for each in found):
        raise ModelError(
            f"The loss of {task.name!r} does not depend on any trainable variable; compute it from the model's outputs."
        )


def _blame(error: Exception) -> str:
    """The error's type and message, and the last line of the user's code it passed through."""
    message = " ".join(str(error).split()) or "no message"
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {message}"
    frames = [(frame, line) for frame, line in traceback.walk_tb(error.__traceback__) if _is_users(frame)]
    if not frames:
        return f"{type(error).__name__}: {message}"
    frame, line = frames[-1]
    return f"{type(error).__name__}: {message} (at {os.path.relpath(frame.f_code.co_filename)}:{line})"


def _is_users(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    paths = sysconfig.get_paths()
    libraries = {paths["stdlib"], paths["platstdlib"], paths["purelib"], paths["platlib"]}
    ours = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return os.path.isfile(file) and not any(file.startswith(each + os.sep) for each in {*libraries, ours})
