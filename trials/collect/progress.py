"""The progress of a collection: a line for each trial, and how far all cells are."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import final

from autosync.words.quantities import duration, milliseconds
from trials.collect.done import Done
from trials.collect.events import Told
from trials.collect.plan import Cell, Plan
from trials.collect.schedule import slots_of

__all__ = ["Progress"]


@final
class Progress:
    """Counts what is done and estimates how long the rest takes, visits' beginnings included."""

    def __init__(
        self, plan: Plan, cells: Sequence[Cell], done: Done, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._slots = {cell: slots_of(plan, cell) for cell in cells}
        self._width = max(len(str(cell)) for cell in cells)
        self._done = done
        self._now = now
        self._begin = now()
        self._timed = 0
        self._not_ok: Counter[Cell] = Counter()

    @property
    def total(self) -> int:
        return sum(map(len, self._slots.values()))

    @property
    def left(self) -> int:
        return sum(map(self.left_of, self._slots))

    def left_of(self, cell: Cell) -> int:
        return len(self._done.left(cell, self._slots[cell]))

    def line(self, told: Told) -> str:
        """The line for one trial, which `done` knows already."""
        self._timed += 1
        self._not_ok[told.cell] += told.outcome not in ("ok", "stopped")
        number = f"{self.total - self.left:{len(str(self.total))}d}/{self.total}"
        label = f"{told.label}, again" if told.repeat else told.label
        what = milliseconds(told.median_seconds) if told.outcome == "ok" else told.outcome
        line = f"{number}  {told.cell!s:<{self._width}}  {told.digest[:8]}  {label:<32.32}{what:>10}"
        line += f"  {duration(self._seconds_left())} left"
        return f"{line}  {told.reason}" if told.reason else line

    def summary(self) -> list[str]:
        """Lines that say how far every cell is."""
        lines = []
        for cell, slots in self._slots.items():
            count = len(slots) - self.left_of(cell)
            failed = f", {self._not_ok[cell]} failed or lost now" if self._not_ok[cell] else ""
            lines.append(f"{cell!s:<{self._width}}  {count:4d} of {len(slots)}{failed}")
        gone = self._now() - self._begin
        lines.append(f"{self._timed} trials in {duration(gone)}; {self.left} of {self.total} are left.")
        return lines

    def _seconds_left(self) -> float:
        return (self._now() - self._begin) / max(self._timed, 1) * self.left
