"""Declared search spaces and menus of disciplines, found by name: one constant a file, SPACE or MENU."""

import os
import pkgutil
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TypeVar

from autosync.errors import SpaceError
from autosync.space import Menu, Space

T = TypeVar("T")

__all__ = ["load_menu", "load_space", "menu_names", "space_names"]


def space_names() -> list[str]:
    """Names of the spaces that come with autosync."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.ispkg)


def menu_names() -> list[str]:
    """Names of the menus that come with autosync."""
    return sorted(module.name for module in pkgutil.iter_modules([f"{path}/menus" for path in __path__]))


def load_space(name: str) -> Space:
    """The space called `name`, or the user's own when named as `package.module:CONSTANT`. Raises `SpaceError`.

    The current directory can be imported from, as for a model of the user's own.
    """
    return _declared(Space, "search space", name, space_names(), "search_spaces", "SPACE")


def load_menu(name: str) -> Menu:
    """The menu called `name`, or the user's own, as of `load_space`. Raises `SpaceError`."""
    return _declared(Menu, "menu", name, menu_names(), "search_spaces.menus", "MENU")


def _declared(kind: type[T], what: str, name: str, known: Sequence[str], package: str, constant: str) -> T:
    """The constant of a `kind`, `what` is called by a `name` that is `known`, or says where it is."""
    module_name, colon, own = name.partition(":")
    if not colon:
        if name not in known:
            raise SpaceError(
                f"No {what} is called {name!r}. Known: {', '.join(known)}; your own is named as "
                f"package.module:{constant}."
            )
        module_name, own = f"{package}.{name}", constant
    elif os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found = getattr(import_module(module_name), own)
    except SpaceError:
        raise
    except Exception as error:  # whatever the user's module raises is what is wrong with it
        reason = str(error).rstrip(".") or type(error).__name__
        raise SpaceError(f"The {what} {name!r} cannot be loaded: {reason}.") from None
    if not isinstance(found, kind):
        raise SpaceError(f"{name!r} must be a {kind.__name__}, not {type(found).__name__}.")
    return found
