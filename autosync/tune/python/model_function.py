"""A model as callers pass it: text for `--model`, or a function."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Any

from autosync.errors import ModelError
from autosync.tune.python.function_source import MAIN, module_text
from trials.workers.import_places import TAKEN


@dataclass(frozen=True)
class ModelFunction:
    """The name of a model, and the place that other processes import it from."""

    name: str
    """A zoo model, or `module:function`."""
    folder: Path | None = None
    """The folder that contains the module; None for the current folder and installed packages."""
    text: str | None = None
    """The text of the module `TAKEN`, which a caller writes into a folder; None for a module that exists."""

    @classmethod
    def of(cls, build: Callable[[], Any] | str) -> ModelFunction:
        """The model `build`. Raises `ModelError` for a function that other processes cannot get."""
        if isinstance(build, str):
            return cls(build)
        if not isinstance(build, FunctionType) or build.__name__ == "<lambda>":
            raise ModelError(
                "A model is a function made by `def`, or text such as 'module:function', not "
                f"{'a lambda' if isinstance(build, FunctionType) else type(build).__name__}."
            )
        if build.__module__ == MAIN:
            return cls(f"{TAKEN}:{build.__name__}", text=module_text(build))
        module = sys.modules.get(build.__module__)
        if getattr(module, build.__name__, None) is not build:
            raise ModelError(
                f"Other processes import a model function from its module by its name, but {build.__module__} has no "
                f"{build.__qualname__!r} at its top level; move it there."
            )
        return cls(f"{build.__module__}:{build.__name__}", _folder_of(str(getattr(module, "__file__", "")), build))


def _folder_of(file: str, function: FunctionType) -> Path | None:
    """The folder that contains the top-level package of the module `file` of `function`; None for the current folder
    and for installed packages.
    """
    path = Path(file).resolve()
    folder = path.parents[function.__module__.count(".") + (path.name == "__init__.py")]
    is_installed = not {"site-packages", "dist-packages"}.isdisjoint(folder.parts)
    return None if is_installed or folder == Path.cwd() else folder
