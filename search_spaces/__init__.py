"""Declared search spaces and menus of disciplines, found by name: one constant a file, SPACE or MENU."""

import os
import pkgutil
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import TypeVar

from autosync.errors import SpaceError, did_you_mean
from autosync.space import Menu, Space, said

T = TypeVar("T")

IMPORT_SECONDS = 60.0
"""Seconds that importing a module with a space or a menu may take."""

__all__ = ["load_menu", "load_space", "menu_names", "space_names"]


def space_names() -> list[str]:
    """Names of the spaces that come with autosync."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.ispkg)


def menu_names() -> list[str]:
    """Names of the menus that come with autosync."""
    return sorted(module.name for module in pkgutil.iter_modules([f"{path}/menus" for path in __path__]))


def load_space(name: str) -> Space:
    """The space called `name`, or the user's own space if `name` is `package.module:CONSTANT`. Raises `SpaceError`.

    Modules of the user are also imported from the current directory, as for a user's own model.
    """
    return _load_constant(Space, "search space", name, space_names(), "search_spaces", "SPACE")


def load_menu(name: str) -> Menu:
    """The menu called `name`, or the user's own, as in `load_space`. Raises `SpaceError`."""
    return _load_constant(Menu, "menu", name, menu_names(), "search_spaces.menus", "MENU")


@contextmanager
def _time_limit() -> Iterator[None]:
    """Raise `TimeoutError` in a block that takes over `IMPORT_SECONDS`.

    Outside the main thread there is no limit, because signals reach the main thread only.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(*_: object) -> None:
        raise TimeoutError(f"importing it took over {IMPORT_SECONDS:g} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, IMPORT_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _load_constant(kind: type[T], what: str, name: str, known: Sequence[str], package: str, constant: str) -> T:
    """Load the constant of class `kind` that `name` names: a known name of `package`, or a module and a constant.

    `what` is the word for the kind in errors. Raises `SpaceError`.
    """
    module_name, colon, constant_name = name.partition(":")
    if not colon:
        if name not in known:
            raise SpaceError(
                f"No {what} is called {name!r}.{did_you_mean(name, known)} Known: {', '.join(known)}; your own is "
                f"named as package.module:{constant}."
            )
        module_name, constant_name = f"{package}.{name}", constant
    elif os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        with _time_limit():
            value = getattr(import_module(module_name), constant_name)
    except SpaceError:
        raise
    except TimeoutError as error:
        raise SpaceError(
            f"The {what} {name!r} cannot be loaded: {error}; move slow code out of {module_name!r}."
        ) from None
    except SystemExit:
        raise SpaceError(
            f"The {what} {name!r} cannot be loaded, because importing {module_name!r} ended the process with sys.exit; "
            "move the script's code under `if __name__ == '__main__'`."
        ) from None
    except Exception as error:  # any error of the user's module
        raise SpaceError(f"The {what} {name!r} cannot be loaded: {said(error).rstrip('.')}.") from None
    if not isinstance(value, kind):
        raise SpaceError(f"{name!r} must be a {kind.__name__}, not {type(value).__name__}.")
    return value
