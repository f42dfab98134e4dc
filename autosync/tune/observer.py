"""The interface through which a search reports its progress to its caller."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Protocol

from autosync.runs.tables import FittedTable
from autosync.spec import RuntimeRecord


class TrialWatcher(Protocol):
    """A context manager for the trials of a search, called with each record."""

    def start_from(self, records: list[RuntimeRecord]) -> None:
        """Start with the records of an earlier process of the same run."""
        ...

    def __call__(self, record: RuntimeRecord) -> None: ...

    def __enter__(self) -> object: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None: ...


class Observer(Protocol):
    """Receives the messages, tables, records and events of a search. The search also returns its `SearchResult`."""

    def say(self, line: str = "", *, is_verdict: bool = False) -> None:
        """Show a sentence; an empty line ends a paragraph. `is_verdict`: the outcome, which is always shown."""
        ...

    def event(self, kind: str, details: Mapping[str, Any]) -> None:
        """Take an event for programs, in JSON; `autosync.tune.events` lists the kinds."""
        ...

    def show(self, table: FittedTable) -> None:
        """Show a table."""
        ...

    def end(self) -> None:
        """Release everything, such as a terminal's cursor, because the process ends at once."""
        ...

    def trials(self, count: int, budget_seconds: float | None, now: Callable[[], float]) -> TrialWatcher:
        """A watcher of up to `count` trials. `now` returns the seconds of its budget that the run has used."""
        ...
