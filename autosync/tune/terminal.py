"""Prints a search to the terminal: sentences, tables, a line per trial, and a live line if the terminal can show one.

All printing of `autosync tune` is here. The search itself reports to an `Observer`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, final

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from autosync.runs.tables import FittedTable
from autosync.spec import RuntimeRecord
from autosync.terminal import Terminal
from autosync.tune.progress import Standing
from autosync.words.quantities import duration, milliseconds

ESTIMATED_AFTER, LONG_SECONDS = 3, 600.0
"""The number of trials after which the remaining time is estimated, and the shortest remaining time that is printed."""

LEAST_LABEL, LABEL, BESIDE_LABEL = 12, 28, 44
"""The widths of the label in a trial's line, and of the other parts, best step included."""

TRIAL_LEGEND = (
    "Each line is one trial: its number, the start of the strategy's digest, the name of the baseline (or how the "
    "search proposed the strategy), and the median step time."
)


class LiveLine(Protocol):
    """A line that changes in place."""

    def start(self) -> None: ...

    def update(self, renderable: Table) -> None: ...

    def stop(self) -> None: ...


def live_line_of(console: Console) -> LiveLine | None:
    """The last line of a terminal; None for a console that is no terminal."""
    return Live(console=console, refresh_per_second=2, transient=True) if console.is_terminal else None


@final
class TerminalObserver:
    """An `Observer` that prints to a console. `live_line` makes the line on a search's progress, or returns None.

    `quiet` prints the outcome only; `verbose` also prints every turn of the finals.
    """

    def __init__(
        self,
        console: Console,
        quiet: bool = False,
        verbose: bool = False,
        live_line: Callable[[Console], LiveLine | None] = live_line_of,
    ) -> None:
        self.console = console
        self._details = Terminal(quiet=True) if quiet else console
        self._verbose = verbose
        self._live_line = live_line

    def say(self, line: str = "", *, is_verdict: bool = False) -> None:
        console = self.console if is_verdict else self._details
        console.print(line, style="bold" if is_verdict else None, soft_wrap=True)

    def show(self, table: FittedTable) -> None:
        self._details.print()
        self._details.print(table)
        self._details.print()

    def event(self, kind: str, details: Mapping[str, Any]) -> None:
        if self._verbose and kind == "turn":
            step = milliseconds(details["median_seconds"], details["time"])
            reason = f"  {details['reason']}" if details["reason"] else ""
            name = f"{details['strategy_digest'][:8]}  {details['label']:<28.28}"
            self.console.print(f"  {name}  {step:>8}  {details['outcome']}{reason}", soft_wrap=True)

    def end(self) -> None:
        self.console.show_cursor()

    def trials(self, count: int, budget_seconds: float | None, now: Callable[[], float]) -> Progress:
        self._details.print(TRIAL_LEGEND, soft_wrap=True, highlight=False)
        return Progress(self._details, count, budget_seconds, now, self._live_line)


@final
class Progress:
    """Prints every record as it arrives; use it as a context manager.

    `now` returns the seconds of `budget_seconds` that all processes of the run have used together.
    """

    def __init__(
        self,
        console: Console,
        trials: int,
        budget_seconds: float | None,
        now: Callable[[], float],
        live_line: Callable[[Console], LiveLine | None] = live_line_of,
    ) -> None:
        self._console = console
        self._trials = trials
        self._budget = budget_seconds
        self._now = now
        self._begin = now()
        self._records: list[RuntimeRecord] = []
        self._earlier = 0
        self._live = None if console.quiet else live_line(console)

    def __enter__(self) -> Progress:
        if self._live:
            self._live.start()
            self._live.update(self._line())
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def start_from(self, records: list[RuntimeRecord]) -> None:
        """Start with the records of an earlier process of the same run."""
        self._records = list(records)
        self._earlier = len(records)

    def __call__(self, record: RuntimeRecord) -> None:
        if record.outcome != "lost":
            self._records.append(record)
        self._console.print(self._trial_line(record), highlight=False, soft_wrap=True)
        if len(self._records) - self._earlier == ESTIMATED_AFTER and record.outcome != "lost":
            self._say_how_long()
        if self._live:
            self._live.update(self._line())

    def _trial_line(self, record: RuntimeRecord) -> Text:
        """One line on the latest trial."""
        standing = Standing.of(self._records)
        # A trial that was lost with its node does not count; it runs again.
        number = "again" if record.outcome == "lost" else f"{len(self._records):4d}/{self._trials}"
        line = Text(f"{number:>{5 + len(str(self._trials))}}  ")
        room = max(LEAST_LABEL, min(LABEL, self._console.width - BESIDE_LABEL))
        line.append(f"{record.strategy.digest[:8]}  {record.label:<{room}.{room}}  ")
        if record.outcome == "ok":
            line.append(f"{milliseconds(record.median_seconds, record.time):>8}", "bold")
            if standing.best is record:
                line.append("  best so far", "green")
        else:
            line.append(f"{record.outcome:>8}", "yellow" if record.outcome == "stopped" else "red")
            line.append(f"  {record.reason}")
        if not self._live and record.outcome == "ok" and standing.best is not record:
            line.append(f"  best {milliseconds(standing.best_seconds)}")
        return line

    def _say_how_long(self) -> None:
        """Print how long the remaining trials will take, if that is long and no time budget ends them sooner."""
        left = self._seconds_left()
        if self._budget is None and left is not None and left >= LONG_SECONDS:
            remaining = self._trials - len(self._records)
            self._console.print(
                f"The other {remaining} trials will take about {duration(left)}, or less because slow trials are "
                "stopped early; set a limit with --trials or --time-budget.",
                highlight=False,
                soft_wrap=True,
            )

    def _line(self) -> Table:
        """The live line: the trial's number, the best, the best baseline, the simulator's ranking, failures, and the
        time left.
        """
        standing, count = Standing.of(self._records), len(self._records)
        parts, time = [], standing.best.time if standing.best else "real"
        if standing.best_seconds is not None:
            parts.append(f"best {milliseconds(standing.best_seconds, time)}")
        if standing.best_baseline_seconds is not None:
            parts.append(f"best baseline {milliseconds(standing.best_baseline_seconds, time)}")
        if right := standing.ranking_share():
            parts.append(f"{right} of pairs ranked right")
        if standing.failed:
            parts.append(f"{standing.failed} failed")
        if (left := self._seconds_left()) is not None:
            parts.append(f"{duration(left)} left")
        grid = Table.grid(padding=(0, 1))
        for _ in range(3):
            grid.add_column(no_wrap=True)
        grid.add_row(
            f"trial {count} of {self._trials}",
            ProgressBar(total=self._trials, completed=count, width=12),
            "  ".join(parts),
        )
        return grid

    def _seconds_left(self) -> float | None:
        new, now = len(self._records) - self._earlier, self._now()
        by_trials = (now - self._begin) / new * (self._trials - len(self._records)) if new else None
        by_budget = self._budget - now if self._budget is not None else None
        bounds = [bound for bound in (by_trials, by_budget) if bound is not None]
        return max(min(bounds), 0.0) if bounds else None
