"""The model zoo: training tasks by name, built on demand.

This package imports TensorFlow or Keras only when `build_task` is called. No weights are ever downloaded: models start
from seeded random weights. They train on batches drawn inside the graph, from synthetic data or data of the package.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from autosync.errors import ModelError
from autosync.zoo.names import (
    ALIASES,
    MODELS,
    check_model_name,
    default_space,
    family,
    framework_by_name,
    no_such_model,
    resolve_name,
    torch_builder,
)

if TYPE_CHECKING:
    from autosync.engine.tensorflow.capture.task import TrainingTask

__all__ = [
    "ALIASES",
    "MODELS",
    "build_task",
    "check_model_name",
    "default_space",
    "framework_by_name",
    "resolve_name",
]


def build_task(name: str, gpus: int = 0, backend: str = "tensorflow", framework: str = "tensorflow") -> Any:
    """Build the model called `name`, or the user's own model if `name` is `package.module:function`.

    The task is a `TrainingTask` of Keras, or with the framework *pytorch* a `ModuleTask`.

    Imports Keras, which must run on `backend`. Building twice gives bit-identical weights under the same variable
    paths, which are equal on every back end. Raises `ModelError`.
    """
    if framework == "pytorch":
        from autosync.engine.pytorch.task import build_task as build_torch_task

        return build_torch_task(torch_builder(name, gpus), None if ":" in name else resolve_name(name, gpus))
    if ":" in name:
        from autosync.zoo.user_model import task_from_function

        return task_from_function(name, backend)
    full_name = resolve_name(name, gpus)
    module, _ = family(full_name)
    if full_name not in MODELS:
        raise ModelError(no_such_model(name))
    from autosync.engine.tensorflow.capture.settings import keras_defaults
    from autosync.zoo.user_model import repeatable_build

    with repeatable_build(backend=backend), keras_defaults():
        task: TrainingTask = import_module(f"autosync.zoo.{module}").build(full_name)
    return replace(task, keras_defaults=True)
