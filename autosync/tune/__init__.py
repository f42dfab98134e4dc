"""A search under Ray Tune, from its options to its finals. This package joins a model, a cluster, trials and a
searcher.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any, NoReturn, final


@final
class _Package(ModuleType):
    """This package, for users who call it like a function of other libraries."""

    def __call__(self, *_: object, **__: object) -> NoReturn:
        raise TypeError(
            "autosync.tune is a package, not a function; call autosync.find_strategy(build, ...), or autosync.Search "
            "to time strategies yourself."
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Ray pickles modules by name, but only those of the plain class; a function of the user may name this one."""
        return import_module, (self.__name__,)


sys.modules[__name__].__class__ = _Package
