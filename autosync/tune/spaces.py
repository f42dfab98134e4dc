"""Finding a declared search space by its name."""

from __future__ import annotations

import pkgutil
from importlib import import_module

import search_spaces
from autosync.errors import SpaceError
from autosync.space import Space

__all__ = ["load_space", "space_names"]


def space_names() -> list[str]:
    """Names of the spaces that come with autosync."""
    return sorted(module.name for module in pkgutil.iter_modules(search_spaces.__path__))


def load_space(name: str) -> Space:
    """The space called `name`, or the user's own when named as `package.module:CONSTANT`. Raises `SpaceError`."""
    module_name, colon, constant = name.partition(":")
    if not colon:
        if name not in space_names():
            raise SpaceError(
                f"No search space is called {name!r}. Known: {', '.join(space_names())}; "
                f"your own is named as package.module:SPACE."
            )
        module_name, constant = f"search_spaces.{name}", "SPACE"
    try:
        found = getattr(import_module(module_name), constant)
    except (ImportError, AttributeError) as error:
        raise SpaceError(f"The search space {name!r} cannot be loaded: {error}.") from None
    if not isinstance(found, Space):
        raise SpaceError(f"{name!r} must be a Space, not {type(found).__name__}.")
    return found
