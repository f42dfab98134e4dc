"""Declared search spaces, found by name: one file a model family, each with one constant, SPACE."""

import os
import pkgutil
import sys
from importlib import import_module

from autosync.errors import SpaceError
from autosync.space import Space

__all__ = ["load_space", "space_names"]


def space_names() -> list[str]:
    """Names of the spaces that come with autosync."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def load_space(name: str) -> Space:
    """The space called `name`, or the user's own when named as `package.module:CONSTANT`. Raises `SpaceError`.

    The current directory can be imported from, as for a model of the user's own.
    """
    module_name, colon, constant = name.partition(":")
    if not colon:
        if name not in space_names():
            raise SpaceError(
                f"No search space is called {name!r}. Known: {', '.join(space_names())}; "
                f"your own is named as package.module:SPACE."
            )
        module_name, constant = f"search_spaces.{name}", "SPACE"
    elif os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found = getattr(import_module(module_name), constant)
    except SpaceError:
        raise
    except Exception as error:  # whatever the user's module raises is what is wrong with it
        what = str(error).rstrip(".") or type(error).__name__
        raise SpaceError(f"The search space {name!r} cannot be loaded: {what}.") from None
    if not isinstance(found, Space):
        raise SpaceError(f"{name!r} must be a Space, not {type(found).__name__}.")
    return found
