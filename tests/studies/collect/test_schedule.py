"""The assignment of a cell's slots."""

from __future__ import annotations

import pytest

from autosync.stats.cells import CellName
from studies.collect.schedule import rounds_of, slots_of, slots_until
from tests.studies.collect.plans import CELL, plan

LONG = plan(strategies=160, block=10, random_share=0.6, repeat_share=0.1, repeat_distance=20, breed_after=25)


def test_there_are_as_many_new_strategies_as_planned_and_a_tenth_of_them_is_repeated() -> None:
    slots = slots_of(LONG, CELL)
    repeats = [slot for slot in slots if slot.original is not None]
    assert [slot.number for slot in slots] == list(range(len(slots)))
    assert [slot.ordinal for slot in slots if slot.original is None] == list(range(160))
    assert len(repeats) in (15, 16)
    assert len({slot.original for slot in repeats}) == len(repeats)


def test_a_repeat_comes_well_after_its_original_and_repeats_come_all_the_time() -> None:
    slots = slots_of(LONG, CELL)
    for slot in slots:
        if slot.original is not None:
            assert slot.number - slot.original >= LONG.repeat_distance
            assert slots[slot.original].original is None
    for begin in range(LONG.repeat_distance, len(slots) - 15, 15):
        assert any(slot.original is not None for slot in slots[begin : begin + 15]), begin


def test_the_rest_is_bred_and_drawn_in_the_planned_shares() -> None:
    # Binomial: of 135 slots, 54 are expected to be bred; a deviation above 20 occurs in less than 1 of 1000 seeds.
    bred = sum(slot.bred for slot in slots_of(LONG, CELL))
    assert 34 <= bred <= 74
    assert not any(slot.bred for slot in slots_of(LONG, CELL)[: LONG.breed_after])


def test_the_seed_and_the_cell_decide_and_nothing_else() -> None:
    assert slots_of(LONG, CELL) == slots_of(LONG, CELL)
    assert slots_of(LONG, CELL) != slots_of(plan(**LONG.model_dump() | {"seed": 1}), CELL)
    assert slots_of(LONG, CELL) != slots_of(LONG, CellName("mlp", "3x1gbit"))
    slot = slots_of(LONG, CELL)[30]
    assert slot.rng(LONG, CELL).random() == slot.rng(LONG, CELL).random()


def test_a_plan_with_more_strategies_begins_with_the_same_slots_and_other_blocks_change_none() -> None:
    shorter = slots_of(plan(**LONG.model_dump() | {"strategies": 50}), CELL)
    assert slots_of(LONG, CELL)[: len(shorter)] == shorter
    assert slots_of(plan(**LONG.model_dump() | {"block": 30}), CELL) == slots_of(LONG, CELL)


@pytest.mark.parametrize("repeat_share", [0.0, 0.2])
def test_rounds_bring_block_after_block_until_all_slots_are_due(repeat_share: float) -> None:
    short = plan(repeat_share=repeat_share)
    slots = slots_of(short, CELL)
    assert slots_until(short, CELL, 0) == slots[:8]
    assert slots_until(short, CELL, rounds_of(short) - 1) == slots
    assert slots_until(short, CELL, rounds_of(short) - 2) != slots
