"""What is on disk of each cell: which slots are done, and which have been lost too often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import final

from trials.collect.plan import Cell, Plan
from trials.collect.schedule import Slot

__all__ = ["MOST_LOSSES", "Done"]

MOST_LOSSES = 3
"""Losses of one slot after which it is passed over: its strategy may be what ends the workers."""


@final
class Done:
    """Slots by cell. `pass_over` is for slots in which nothing can be timed; it holds for this process only."""

    def __init__(self, plan: Plan, rows: Iterable[tuple[str, int | None, str]] = ()) -> None:
        """`rows` are the `run`, `sequence` and `outcome` of each record."""
        self._cells = {plan.run_of(cell): cell for cell in plan.cells}
        self._over: dict[Cell, set[int]] = {cell: set() for cell in plan.cells}
        self._losses: Counter[tuple[Cell, int]] = Counter()
        for run, sequence, outcome in rows:
            if run in self._cells and sequence is not None:
                self.count(self._cells[run], sequence, outcome)

    def count(self, cell: Cell, sequence: int, outcome: str) -> None:
        """Note that a record with this outcome is on disk."""
        if outcome == "lost":
            self._losses[cell, sequence] += 1
            if self._losses[cell, sequence] < MOST_LOSSES:
                return
        self._over[cell].add(sequence)

    def pass_over(self, cell: Cell, sequence: int) -> None:
        self._over[cell].add(sequence)

    def left(self, cell: Cell, slots: Iterable[Slot]) -> list[Slot]:
        """The `slots` that are still to be timed, in order."""
        return [slot for slot in slots if slot.number not in self._over[cell]]
