"""Reports of a search to the caller's functions, besides the terminal or the notebook."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeAlias, final

from autosync.runs.tables import FittedTable
from autosync.spec import RuntimeRecord
from autosync.terminal import Terminal
from autosync.tune.observer import Observer, TrialWatcher
from autosync.tune.python.notebook import NotebookLine, display_here
from autosync.tune.ray_callbacks import callback_error
from autosync.tune.terminal import TerminalObserver

Callback: TypeAlias = Callable[[RuntimeRecord], object]
"""A function that is called with the record of each trial."""


def printing_observer(progress: bool) -> TerminalObserver:
    """An observer that prints to the terminal or under a notebook's cell; without `progress`, it prints nothing."""
    # Rich would show each line of a notebook as a separate output, and would need ipywidgets for a live line.
    console, display = Terminal(force_jupyter=False, quiet=not progress), display_here()
    if display is None or not progress:
        return TerminalObserver(console)
    return TerminalObserver(console, live_line=lambda _: NotebookLine(display))


@final
class CallingObserver:
    """An `Observer` that also calls the caller's functions with the record of each trial."""

    def __init__(self, inner: Observer, callbacks: Sequence[Callback]) -> None:
        self._inner = inner
        self._callbacks = callbacks

    def say(self, line: str = "", *, is_verdict: bool = False) -> None:
        self._inner.say(line, is_verdict=is_verdict)

    def event(self, kind: str, details: Mapping[str, Any]) -> None:
        self._inner.event(kind, details)

    def show(self, table: FittedTable) -> None:
        self._inner.show(table)

    def end(self) -> None:
        self._inner.end()

    def trials(self, count: int, budget_seconds: float | None, now: Callable[[], float]) -> TrialWatcher:
        return _CallingWatcher(self._inner.trials(count, budget_seconds, now), self._callbacks)


@final
class _CallingWatcher:
    """A `TrialWatcher` for `CallingObserver`."""

    def __init__(self, inner: TrialWatcher, callbacks: Sequence[Callback]) -> None:
        self._inner = inner
        self._callbacks = callbacks

    def start_from(self, records: list[RuntimeRecord]) -> None:
        self._inner.start_from(records)

    def __call__(self, record: RuntimeRecord) -> None:
        self._inner(record)
        for callback in self._callbacks:
            try:
                callback(record)
            except Exception as error:
                raise callback_error(callback, error) from error

    def __enter__(self) -> object:
        self._inner.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        self._inner.__exit__(kind, error, traceback)
