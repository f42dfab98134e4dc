"""Finds the fastest gradient-synchronization strategy for a model on a cluster, by measuring, and trains with it.

Every function and class is loaded at its first use, so that importing this package loads nothing else.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from autosync.shadows import check_path
from autosync.version import VERSION

if TYPE_CHECKING:
    from autosync.errors import AutosyncError as AutosyncError
    from autosync.spec import RuntimeRecord as RuntimeRecord
    from autosync.spec import Strategy as Strategy
    from autosync.train import distribute as distribute
    from autosync.tune.python.find_strategy import find_strategy as find_strategy
    from autosync.tune.python.result import Result as Result
    from autosync.tune.python.search import Search as Search
    from autosync.tune.python.tune_searcher import AutoSyncSearcher as AutoSyncSearcher

__all__ = [
    "AutoSyncSearcher",
    "AutosyncError",
    "Result",
    "RuntimeRecord",
    "Search",
    "Strategy",
    "__version__",
    "distribute",
    "find_strategy",
]

__version__ = VERSION

_MODULES = {
    "AutoSyncSearcher": "autosync.tune.python.tune_searcher",
    "AutosyncError": "autosync.errors",
    "Result": "autosync.tune.python.result",
    "RuntimeRecord": "autosync.spec",
    "Search": "autosync.tune.python.search",
    "Strategy": "autosync.spec",
    "distribute": "autosync.train",
    "find_strategy": "autosync.tune.python.find_strategy",
}
"""The module of each name."""


def __getattr__(name: str) -> Any:
    if name == "tune":  # a call of it names the function to call instead
        return import_module("autosync.tune")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    check_path()
    value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
