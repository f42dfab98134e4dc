"""The schedule of a cell: what each of its numbered slots is for, known beforehand from the plan's seed."""

import math
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import final

from autosync.stats.cells import CellName
from autosync.studies.collect.plan import Plan


@dataclass(frozen=True)
class Slot:
    """A trial to be. `original` is the slot whose strategy it repeats; None asks for a new strategy.

    `ordinal` counts the new strategies before it; a new one is `bred` from good ones, or drawn at random.
    """

    number: int
    ordinal: int
    original: int | None = None
    bred: bool = False

    def rng(self, plan: Plan, cell: CellName) -> random.Random:
        """A random generator of this slot's own: the same whatever ran before, and in any process."""
        return random.Random(f"{plan.seed}/{cell}/{self.number}/strategy")


def slots_of(plan: Plan, cell: CellName) -> list[Slot]:
    """The slots of a cell: `plan.strategies` new ones, and repeats between them.

    A plan with more strategies begins with the same slots. Originals are drawn alike from all that lie far enough back,
    so that with blocks no longer than that another visit times the repeat.
    """
    slots: list[Slot] = []
    for slot in _endless(plan, cell):
        if slot.ordinal == plan.strategies:
            return slots
        slots.append(slot)
    raise AssertionError("the schedule has no end")


def slots_until(plan: Plan, cell: CellName, round_number: int) -> list[Slot]:
    """The slots that are due by the end of round `round_number`, counted from 0."""
    return slots_of(plan, cell)[: (round_number + 1) * plan.block]


def rounds_of(plan: Plan) -> int:
    """The number of rounds that a cell takes."""
    return math.ceil(len(slots_of(plan, plan.cells[0])) / plan.block)


def _endless(plan: Plan, cell: CellName) -> Iterator[Slot]:
    originals: list[int] = []
    repeated: set[int] = set()
    for number in count():
        rng = random.Random(f"{plan.seed}/{cell}/{number}/slot")
        far_back = [each for each in originals if each <= number - plan.repeat_distance and each not in repeated]
        if far_back and len(repeated) < math.floor(plan.repeat_share * len(originals)):
            original = rng.choice(far_back)
            repeated.add(original)
            yield Slot(number, len(originals), original)
        else:
            bred = len(originals) >= plan.breed_after and rng.random() >= plan.random_share
            yield Slot(number, len(originals), bred=bred)
            originals.append(number)


MOST_LOSSES = 3
"""Losses of one slot after which it is passed over: its strategy may be what ends the workers."""


@final
class Done:
    """Slots by cell. `pass_over` is for slots in which nothing can be timed; it holds for this process only."""

    def __init__(self, plan: Plan, rows: Iterable[tuple[str, int | None, str]] = ()) -> None:
        """`rows` are the `run`, `sequence` and `outcome` of each record."""
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

    def pass_over(self, cell: CellName, sequence: int) -> None:
        self._over[cell].add(sequence)

    def left(self, cell: CellName, slots: Iterable[Slot]) -> list[Slot]:
        """The `slots` that are still to be timed, in order."""
        return [slot for slot in slots if slot.number not in self._over[cell]]
