"""The live line of a search in a notebook: an output of the cell that changes in place."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any, final

from rich.table import Table


def display_here() -> Any:
    """IPython's function `display` if this process is the kernel of a notebook; None elsewhere."""
    ipython: Any = sys.modules.get("IPython")
    has_kernel = ipython is not None and getattr(ipython.get_ipython(), "kernel", None) is not None
    return import_module("IPython.display").display if has_kernel else None


@final
class NotebookLine:
    """A `LiveLine` without widgets, so that it works in every notebook; its last state stays under the cell."""

    def __init__(self, display: Any) -> None:
        """`display` is IPython's."""
        self._display = display
        self._shown: Any = None

    def start(self) -> None:
        """Show nothing before the first `update`."""

    def update(self, renderable: Table) -> None:
        if self._shown is None:
            self._shown = self._display(renderable, display_id=True)
        else:
            self._shown.update(renderable)

    def stop(self) -> None:
        """Leave the last state."""
