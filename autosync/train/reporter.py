"""The output of `autosync train`: sentences for people, and events for programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

from autosync.terminal import Report, Terminal, no_report


@final
class Reporter:
    """Prints sentences to the terminal; `quiet` prints the outcome only. `write` takes events in JSON."""

    def __init__(self, quiet: bool = False, write: Report = no_report) -> None:
        self._always = Terminal()
        self._console = Terminal(quiet=True) if quiet else self._always
        self._write = write

    def say(self, line: str) -> None:
        self._console.print(line, soft_wrap=True)

    def say_outcome(self, line: str) -> None:
        """Print the outcome of the training, or how to resume it."""
        self._always.print(line, soft_wrap=True)

    def event(self, kind: str, details: Mapping[str, Any]) -> None:
        """Report an event: `training` (it begins), `step` (a line), or `result` (it has ended)."""
        self._write({"event": kind, **details})
