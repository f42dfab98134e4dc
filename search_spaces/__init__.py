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

from autosync.errors import SpaceError
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
    """The space called `name`, or the user's own when named as `package.module:CONSTANT`. Raises `SpaceError`.

    The current directory can be imported from, as for a model of the user's own.
    """
    return _declared(Space, "search space", name, space_names(), "search_spaces", "SPACE")


def load_menu(name: str) -> Menu:
    """The menu called `name`, or the user's own, as of `load_space`. Raises `SpaceError`."""
    return _declared(Menu, "menu", name, menu_names(), "search_spaces.menus", "MENU")


@contextmanager
def _time_limit() -> Iterator[None]:
    """Raise `TimeoutError` in a block that takes over `IMPORT_SECONDS`; only the main thread can be interrupted."""
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
        with _time_limit():
            found = getattr(import_module(module_name), own)
    except SpaceError:
        raise
    except TimeoutError as error:
        raise SpaceError(
            f"The {what} {name!r} cannot be loaded: {error}; keep what takes long out of {module_name!r}."
        ) from None
    except SystemExit:
        raise SpaceError(
            f"The {what} {name!r} cannot be loaded, because importing {module_name!r} ended the process with sys.exit; "
            "keep what the module does as a script under `if __name__ == '__main__'`."
        ) from None
    except Exception as error:  # any error of the user's module
        raise SpaceError(f"The {what} {name!r} cannot be loaded: {said(error).rstrip('.')}.") from None
    if not isinstance(found, kind):
        raise SpaceError(f"{name!r} must be a {kind.__name__}, not {type(found).__name__}.")
    return found
