"""Cells have the same name everywhere, and a cell with few repeats has the noise of all cells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from autosync.spec import RuntimeRecord
from autosync.stats.cells import CellName, cell_of, records_by_cell, with_noise
from autosync.tune.recorded import cells_of
from studies.evaluation import build_cells
from tests.studies.evaluation.made_up import part_of
from tests.tune.recorded.examples import cell, records_of


def renamed(run: str) -> Iterator[RuntimeRecord]:
    return (replace(record, run=run) for name in ("two", "three") for record in records_of(name))


def test_a_cell_has_the_name_that_its_collection_gave_it() -> None:
    (name,) = records_by_cell(records_of("two"))
    assert name == cell_of("example/mlp@two") == CellName("mlp", "two")
    assert cell_of("a-search") is None


@pytest.mark.parametrize("run", ["plan/mlp@lab", "a-search-0a1b2c"])
def test_replays_and_evaluations_call_a_cell_alike_whatever_its_records_say(run: str) -> None:
    replayed = [cell.name for cell in cells_of(renamed(run))[0]]
    assert replayed == [cell.name for cell in build_cells(renamed(run), part_of)[0]]
    assert len(set(replayed)) == 2


def test_records_of_a_cell_keep_their_order() -> None:
    all_records = list(records_of("three"))
    assert records_by_cell(reversed(all_records)) == {CellName("mlp", "three"): all_records[::-1]}


def test_where_nothing_was_repeated_the_noise_is_that_of_steps_and_else_that_of_all_cells() -> None:
    once, twice = cell("two"), cell("three")
    once = replace(once, trials={strategy: trials[:1] for strategy, trials in once.trials.items()})
    (alone,), together = with_noise([once]), with_noise([once, twice])
    assert together[0].deviation == together[1].deviation
    assert alone.deviation != together[0].deviation
