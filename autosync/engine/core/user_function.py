"""A user's own function, named as `package.module:function`: imported, called, and the framework of its model."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from autosync.engine.core.blame import blame
from autosync.errors import ModelError


def parts_of_own(spec: str) -> tuple[str, str]:
    """Module and function in the name of a user's own model. Raises `ModelError` if either is missing."""
    module, _, function = spec.partition(":")
    if not all(module.split(".")) or not function.isidentifier():
        raise ModelError(f"A model of your own is named as package.module:function, not {spec!r}.")
    return module, function


def user_function(spec: str) -> Callable[[], Any]:
    """The function called `spec`; modules are also imported from the current directory. Raises `ModelError`."""
    module_name, function_name = parts_of_own(spec)
    function: Callable[[], Any] | None = getattr(_module(spec, module_name), function_name, None)
    if function is None or not callable(function):
        raise ModelError(
            f"Module {module_name!r} must have a function {function_name!r} that returns the model, "
            "but has none of that name."
        )
    return function


def call_user_function(spec: str, function: Callable[[], Any]) -> Any:
    """The value that `function`, called `spec`, returns. Raises `ModelError`."""
    try:
        return function()
    except Exception as error:
        raise ModelError(f"The function {spec!r}, called without arguments, failed: {blame(error)}.") from error
    except SystemExit as error:  # as in `_module`
        raise ModelError(
            f"The function {spec!r}, called without arguments, ended the process with sys.exit: {blame(error)}; "
            "let it return the model instead."
        ) from error


def framework_of(returned: Any) -> str | None:
    """The engine that runs the model which a user's function `returned`; None if the value has no model.

    Neither framework is loaded: a value has a framework's model only if the framework is loaded already. If Keras runs
    on PyTorch, a Keras model is a torch module and belongs to the PyTorch engine.
    """
    return next(_frameworks_of(returned), None)


def _frameworks_of(returned: Any) -> Iterator[str]:
    """The engines to whose frameworks the class of the model belongs."""
    first = returned[0] if isinstance(returned, tuple | list) and returned else returned
    for engine, package, path in _MODELS:
        kind: Any = sys.modules.get(package)
        for name in path:
            kind = getattr(kind, name, None)
        if kind is not None and isinstance(first, kind):
            yield engine


_MODELS = (("pytorch", "torch", ("nn", "Module")), ("tensorflow", "keras", ("Model",)))
"""Engine, package, and the place of the class of models in the package."""

_CALLED = {"tensorflow": "a Keras model", "pytorch": "a PyTorch module"}


def check_framework(spec: str, returned: Any, framework: str) -> None:
    """Raise `ModelError` if the function `spec` returned a model of other frameworks than that of the engine.

    A Keras model on PyTorch is a model of both, and `autosync profile` measures it as a Keras model.
    """
    actual = framework_of(returned)
    if actual is not None and framework not in _frameworks_of(returned):
        raise ModelError(
            f"{spec!r} returns {_CALLED[actual]}, but the framework {framework} needs {_CALLED[framework]}; "
            "`autosync tune` and `autosync trial` take either if you omit --framework."
        )


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
        raise ModelError(f"Importing {name!r} for {spec!r} failed: {blame(error)}.") from error
    except Exception as error:
        raise ModelError(f"Importing {name!r} for {spec!r} failed: {blame(error)}.") from error
    except SystemExit as error:  # it would end a worker process, and the only message would be that the worker died
        raise ModelError(
            f"Importing {name!r} for {spec!r} ended the process with sys.exit: {blame(error)}; "
            "move the script's code under `if __name__ == '__main__'`."
        ) from error
