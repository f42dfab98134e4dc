"""A user's own model whose framework follows from the value that the user's function returns."""

from __future__ import annotations

import os
import random
import sys
from typing import Any

from autosync.engine.core.marked_processes import forks_end_with_this
from autosync.engine.core.registry import engine_named
from autosync.engine.core.user_function import call_user_function, framework_of, user_function
from autosync.errors import ModelError


def build_own(spec: str) -> tuple[str, Any]:
    """The framework and the task of `package.module:function`, which is called once. Raises `ModelError`.

    Call this in a new process, because only there the weights of a Keras model are the same each time. No framework is
    loaded that the user's code does not load.
    """
    with forks_end_with_this():
        framework, returned = _call(spec)
        return framework, _task(framework, spec, returned)


def _call(spec: str) -> tuple[str, Any]:
    """The framework of the model that the user's function returns, and all that it returns."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # as the TensorFlow engine sets it before it loads TensorFlow
    with engine_named("tensorflow").quiet_log():  # the user's module may import TensorFlow
        function = user_function(spec)
    random.seed(0)  # Keras draws its seeds from this generator
    if (torch := sys.modules.get("torch")) is not None:
        torch.manual_seed(0)
    returned = call_user_function(spec, function)
    framework = framework_of(returned)
    if framework is None:
        first = returned[0] if isinstance(returned, tuple | list) and returned else returned
        raise ModelError(
            f"{spec!r} must return (module, loss, (inputs, targets), optimizer) of PyTorch or (keras_model, loss, "
            f"(inputs, targets)), whose first item is the model, not {type(first).__name__}."
        )
    return framework, returned


def _task(framework: str, spec: str, returned: Any) -> Any:
    if framework == "pytorch":
        from autosync.engine.pytorch.task import task_of

        engine_named(framework).load()
        return task_of(spec, spec, returned)
    from autosync.engine.tensorflow.loading import check_backend
    from autosync.zoo.user_model import task_of_parts

    check_backend()
    engine_named(framework).load()
    return task_of_parts(spec, returned)
