"""A tied table whose looked-up rows are sent apart is laid out as two variables."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autosync.errors import SpecError
from autosync.layout.apart import apart, rows_of, split_model, splits_of, table_of
from autosync.layout.fusion import Layout
from autosync.spec import AllReduce, DeviceProfile, ModelSpec, Partition, Strategy, VariableStrategy
from tests.cases import tied_model

MODEL = tied_model()
TABLE = "table"


def strategy(model: ModelSpec, *tables: str) -> Strategy:
    return Strategy(
        ("node0/cpu:0", "node0/cpu:1"),
        tuple(VariableStrategy(v.name, (AllReduce(0),), rows_apart=v.name in tables) for v in model.variables),
    )


def test_the_dense_part_is_ready_early_and_the_rows_as_late_as_the_table_was() -> None:
    split = split_model(MODEL, (TABLE,))
    assert [variable.name for variable in split.variables] == [TABLE, "table (rows)", "hidden", "bias"]
    table, rows, hidden, bias = split.variables
    assert (table.sparse, rows.sparse, rows.rows_per_step, rows.shape) == (False, True, 40.0, table.shape)
    assert [v.ready_order for v in (bias, table, hidden, rows)] == [0, 1, 2, 3]
    assert split.profile is not None
    assert split.profile.ready == {"bias": 0.1, TABLE: 0.2, "hidden": 0.9, "table (rows)": 1.0}
    assert split.profile.read == {"bias": 0.9, TABLE: 0.05, "hidden": 0.1, "table (rows)": 0.05}
    assert split.weight_tied_tables == ()
    assert (rows_of(TABLE), table_of("table (rows)"), table_of(TABLE)) == ("table (rows)", TABLE, TABLE)


def test_a_layout_has_the_rows_beside_the_buckets() -> None:
    assert apart(MODEL, strategy(MODEL)) == (MODEL, strategy(MODEL))
    layout = Layout.of(strategy(MODEL, TABLE), MODEL)
    assert [shard.variable.name for shard in layout.buckets[0]] == [TABLE, "hidden", "bias"]
    assert [(shard.variable.name, shard.gradient_bytes) for shard in layout.alone] == [("table (rows)", 40 * 8 * 4)]


def test_a_cut_table_has_whole_rows() -> None:
    decisions = {decision.variable: decision for decision in strategy(MODEL, TABLE).variables}
    decisions[TABLE] = VariableStrategy(TABLE, (AllReduce(0), AllReduce(1)), Partition(1, 2), rows_apart=True)
    layout = Layout.of(replace(strategy(MODEL), variables=tuple(decisions.values())), MODEL)
    assert [shard.slice.count for shard in layout.of_variables[0]] == [2, 2]
    assert [shard.slice.count for shard in layout.of_variables[1]] == [1]


def test_without_a_profile_the_table_keeps_its_place_and_its_rows_come_last() -> None:
    bare = replace(MODEL, profile=None)
    split = split_model(bare, (TABLE,))
    assert [variable.ready_order for variable in split.variables] == [2, 3, 1, 0]
    assert split.variables[1].rows_per_step == 1.0
    assert MODEL.profile is not None
    timed = split_model(replace(MODEL, profile=replace(MODEL.profile, uses=None)), (TABLE,))
    assert timed.profile is not None
    assert timed.profile.ready[TABLE] == timed.profile.ready["table (rows)"] == 1.0
    assert timed.variables == split.variables


def test_every_choice_of_tables_is_a_split() -> None:
    assert list(splits_of(MODEL)) == [MODEL, split_model(MODEL, (TABLE,))]
    assert list(splits_of(replace(MODEL, profile=None))) == [replace(MODEL, profile=None)]


def test_a_variable_without_lookups_is_refused() -> None:
    with pytest.raises(SpecError, match="Variable 'hidden' of model 'tied' is no tied table; set rows_apart to false"):
        split_model(MODEL, ("hidden",))


def test_a_device_profile_is_split_at_the_same_share() -> None:
    ready, read = {TABLE: 2.0, "hidden": 1.8, "bias": 0.2}, {TABLE: 0.1, "hidden": 0.2, "bias": 0.9}
    measured = DeviceProfile("GPU", {"torch": "2"}, MODEL.batch_size, "float32", "2026-11-20", 1.0, 2.0, ready, read)
    split = split_model(replace(MODEL, device_profile=measured), (TABLE,)).device_profile
    assert split is not None
    assert split.ready_seconds == {**ready, TABLE: 0.4, "table (rows)": 2.0}
    assert split.read_seconds == {**read, "table (rows)": 0.1}
