"""The schedule of a cell: assigns each numbered slot a new strategy or a repeat, by the plan's seed."""

import math
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import final

from autosync.stats.cells import CellName
from studies.collect.plan import Plan


@dataclass(frozen=True)
class Slot:
    """A planned trial."""

    number: int
    ordinal: int
    """The number of new strategies in earlier slots."""
    original: int | None = None
    """The number of the slot whose strategy this slot repeats; None for a new strategy."""
    bred: bool = False
    """Whether a new strategy is bred from fast strategies, rather than drawn at random."""

    def rng(self, plan: Plan, cell: CellName) -> random.Random:
        """Return this slot's random generator, which is the same in any process and after any other slots."""
        return random.Random(f"{plan.seed}/{cell}/{self.number}/strategy")


def slots_of(plan: Plan, cell: CellName) -> list[Slot]:
    """Return the slots of a cell: `plan.strategies` new strategies, and repeats between them.

    A plan with more strategies starts with the same slots. The original of a repeat is drawn uniformly from all slots
    at least `repeat_distance` back. With blocks no longer than that distance, a repeat is timed on a later visit.
    """
    slots: list[Slot] = []
    for slot in _endless(plan, cell):
        if slot.ordinal == plan.strategies:
            return slots
        slots.append(slot)
    raise AssertionError("the schedule has no end")


def slots_until(plan: Plan, cell: CellName, round_number: int) -> list[Slot]:
    """Return the slots that are due by the end of round `round_number`, counted from 0."""
    return slots_of(plan, cell)[: (round_number + 1) * plan.block]


def rounds_of(plan: Plan) -> int:
    """Return the number of rounds of a cell."""
    return math.ceil(len(slots_of(plan, plan.cells[0])) / plan.block)


def _endless(plan: Plan, cell: CellName) -> Iterator[Slot]:
    originals: list[int] = []
    repeated: set[int] = set()
    for number in count():
        rng = random.Random(f"{plan.seed}/{cell}/{number}/slot")
        far_back = [
            earlier for earlier in originals if earlier <= number - plan.repeat_distance and earlier not in repeated
        ]
        if far_back and len(repeated) < math.floor(plan.repeat_share * len(originals)):
            original = rng.choice(far_back)
            repeated.add(original)
            yield Slot(number, len(originals), original)
        else:
            bred = len(originals) >= plan.breed_after and rng.random() >= plan.random_share
            yield Slot(number, len(originals), bred=bred)
            originals.append(number)


MOST_LOSSES = 3
"""Losses of one slot after which it is skipped, because its strategy may be the cause of the losses."""


@final
class FinishedSlots:
    """The finished slots of each cell. Skipped slots, which have no strategy to time, are known to this process
    only."""

    def __init__(self, plan: Plan, rows: Iterable[tuple[str, int | None, str]] = ()) -> None:
        """Count the records in `rows`, given as `run`, `sequence` and `outcome`."""
        self._cells = {plan.run_of(cell): cell for cell in plan.cells}
        self._over: dict[CellName, set[int]] = {cell: set() for cell in plan.cells}
        self._losses: Counter[tuple[CellName, int]] = Counter()
        for run, sequence, outcome in rows:
            if run in self._cells and sequence is not None:
                self.count(self._cells[run], sequence, outcome)

    def count(self, cell: CellName, sequence: int, outcome: str) -> None:
        """Note that a record with this outcome is on disk."""
        if outcome == "lost":
            self._losses[cell, sequence] += 1
            if self._losses[cell, sequence] < MOST_LOSSES:
                return
        self._over[cell].add(sequence)

    def skip(self, cell: CellName, sequence: int) -> None:
        """Note that a slot has no strategy to time."""
        self._over[cell].add(sequence)

    def left(self, cell: CellName, slots: Iterable[Slot]) -> list[Slot]:
        """Return the unfinished ones of `slots`, in order."""
        return [slot for slot in slots if slot.number not in self._over[cell]]
