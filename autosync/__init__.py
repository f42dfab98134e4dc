"""Finds the fastest gradient-synchronization strategy for a model on a cluster, by measuring, and trains with it.

`autosync.distribute` is loaded when it is first asked for, so that importing this package loads nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from autosync.shadows import check_path
from autosync.version import VERSION

if TYPE_CHECKING:
    from autosync.train import distribute as distribute

__version__ = VERSION


def __getattr__(name: str) -> Any:
    if name == "distribute":
        check_path()
        from autosync.train import distribute

        return distribute
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
