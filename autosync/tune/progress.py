"""Progress for a person: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from autosync.spec import RuntimeRecord
from autosync.stats.accuracy import pairwise_accuracy, strategy_medians
from autosync.words.quantities import duration, milliseconds

FEWEST_RANKED = 5
"""The fewest strategies whose ranking is told: from ten pairs on a share begins to say something."""


ESTIMATED_AFTER, LONG_SECONDS = 3, 600.0
"""Trials after which the search estimates its length, and the shortest rest that is worth a sentence."""


@dataclass(frozen=True)
class Standing:
    """The standing of a search after its records so far.

    `best` is the first record of the fastest strategy, which takes `best_seconds` a step, the median over all its
    timings. `rank_agreement` is the pairwise accuracy of what was predicted of `ranked` searched strategies.
    """

    best: RuntimeRecord | None
    best_seconds: float | None
    best_baseline_seconds: float | None
    rank_agreement: float
    ranked: int
    failed: int

    @classmethod
    def of(cls, records: list[RuntimeRecord]) -> Standing:
        timed = [record for record in records if record.outcome == "ok"]
        predicted = [record for record in timed if record.predicted_seconds is not None and record.purpose == "search"]
        medians = strategy_medians(timed)
        best = min(timed, key=lambda each: medians[each.strategy.digest], default=None)
        baselines = [medians[each.strategy.digest] for each in timed if each.purpose == "baseline"]
        return cls(
            best=best,
            best_seconds=medians[best.strategy.digest] if best else None,
            best_baseline_seconds=min(baselines, default=None),
            rank_agreement=_agreement(predicted),
            ranked=len(predicted),
            failed=sum(each.outcome in ("failed", "timed_out", "lost") for each in records),
        )

    def ranked_right(self) -> str | None:
        """`rank_agreement` as people read it; None while too few strategies are ranked for it to say something."""
        return _share(self.rank_agreement, self.ranked)


def ranking_in_words(records: Sequence[RuntimeRecord]) -> str:
    """How many pairs the simulator ranked right, in a sentence; "" while too few are ranked to say.

    What is searched was mostly picked for predictions that are nearly the same, so its share says little; baselines are
    apart. Those that were stopped were timed long enough to be ranked.
    """
    baselines = [each for each in records if each.purpose == "baseline" and each.predicted_seconds and each.timed]
    of_baselines = _share(_agreement(baselines), len(baselines))
    searched = Standing.of(list(records)).ranked_right()
    parts = [f"{of_baselines} of the pairs of baselines"] if of_baselines else []
    parts += [f"{searched} of the searched pairs, mostly picked as about equally fast"] if searched else []
    return f"The simulator ranked right {' and '.join(parts)}." if parts else ""


def _agreement(records: Sequence[RuntimeRecord]) -> float:
    """Pairwise accuracy of what was predicted of each."""
    return pairwise_accuracy(
        [each.predicted_seconds or 0.0 for each in records], [each.median_seconds or 0.0 for each in records]
    )


def _share(agreement: float, ranked: int) -> str | None:
    return f"{agreement:.0%}" if ranked >= FEWEST_RANKED and not math.isnan(agreement) else None


@final
class Progress:
    """Shows every record when it comes; use it as a context. `now` returns the seconds that the run has taken, in all
    its processes together, of `budget_seconds`."""

    def __init__(self, console: Console, trials: int, budget_seconds: float | None, now: Callable[[], float]) -> None:
        self._console = console
        self._trials = trials
        self._budget = budget_seconds
        self._now = now
        self._begin = now()
        self._records: list[RuntimeRecord] = []
        self._earlier = 0
        self._live = Live(console=console, refresh_per_second=2, transient=True) if console.is_terminal else None

    def __enter__(self) -> Progress:
        if self._live:
            self._live.start()
            self._live.update(self._line())
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def start_from(self, records: list[RuntimeRecord]) -> None:
        """Take up the records of an earlier process of the same run."""
        self._records = list(records)
        self._earlier = len(records)

    def __call__(self, record: RuntimeRecord) -> None:
        if record.outcome != "lost":
            self._records.append(record)
        self._console.print(self._of(record), highlight=False, soft_wrap=True)
        if len(self._records) - self._earlier == ESTIMATED_AFTER and record.outcome != "lost":
            self._say_how_long()
        if self._live:
            self._live.update(self._line())

    def _of(self, record: RuntimeRecord) -> Text:
        """One trial in one line."""
        standing = Standing.of(self._records)
        # A trial that was lost with its node does not count; it runs again.
        number = "again" if record.outcome == "lost" else f"{len(self._records):4d}/{self._trials}"
        line = Text(f"{number:>{5 + len(str(self._trials))}}  ")
        line.append(f"{record.strategy.digest[:8]}  {record.label:<28.28}  ")
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
        """Print how long all trials will take, if that is long and no time budget ends them sooner."""
        left = self._seconds_left()
        if self._budget is None and left is not None and left >= LONG_SECONDS:
            others = self._trials - len(self._records)
            self._console.print(
                f"At this pace the other {others} trials take {duration(left)}, or less because slow ones are stopped; "
                "--trials and --time-budget set limits.",
                highlight=False,
                soft_wrap=True,
            )

    def _line(self) -> Table:
        """The live line: how far, best against best baseline, how well the simulator ranks, and the time left."""
        standing, count = Standing.of(self._records), len(self._records)
        parts, time = [], standing.best.time if standing.best else "real"
        if standing.best_seconds is not None:
            parts.append(f"best {milliseconds(standing.best_seconds, time)}")
        if standing.best_baseline_seconds is not None:
            parts.append(f"best baseline {milliseconds(standing.best_baseline_seconds, time)}")
        if right := standing.ranked_right():
            parts.append(f"{right} ranked right")
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
        bounds = [each for each in (by_trials, by_budget) if each is not None]
        return max(min(bounds), 0.0) if bounds else None
