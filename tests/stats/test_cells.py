"""Cells are called alike wherever they are met, and one with few repeats has the noise of all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from autosync.spec import RuntimeRecord
from autosync.stats.cells import CellName, cell_of, records_by_cell, with_noise
from autosync.studies.evaluation import measured_cells
from autosync.tune.recorded import recorded_cells
from tests.studies.evaluation.made_up import part_of
from tests.tune.recorded.examples import cell, records_of


def renamed(run: str) -> Iterator[RuntimeRecord]:
    return (replace(each, run=run) for name in ("two", "three") for each in records_of(name))


def test_a_cell_has_the_name_that_its_collection_gave_it() -> None:
    (name,) = records_by_cell(records_of("two"))
    assert name == cell_of("example/mlp@two") == CellName("mlp", "two")
    assert cell_of("a-search") is None


@pytest.mark.parametrize("run", ["plan/mlp@lab", "a-search-0a1b2c"])
def test_replays_and_evaluations_call_a_cell_alike_whatever_its_records_say(run: str) -> None:
    replayed = [each.name for each in recorded_cells(renamed(run))[0]]
    assert replayed == [each.name for each in measured_cells(renamed(run), part_of)[0]]
    assert len(set(replayed)) == 2


def test_records_of_a_cell_keep_their_order() -> None:
    given = list(records_of("three"))
    assert records_by_cell(reversed(given)) == {CellName("mlp", "three"): given[::-1]}


def test_where_nothing_was_repeated_the_noise_is_that_of_steps_and_else_that_of_all_cells() -> None:
    once, twice = cell("two"), cell("three")
    once = replace(once, trials={strategy: trials[:1] for strategy, trials in once.trials.items()})
    (alone,), both = with_noise([once]), with_noise([once, twice])
    assert both[0].deviation == both[1].deviation
    assert alone.deviation != both[0].deviation
