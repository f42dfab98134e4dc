"""Trials of a cell, one after the other, and what a second process makes of those on disk."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from autosync.baselines import BASELINES
from autosync.dataset import RecordStore
from autosync.engine.version import ENGINE
from autosync.errors import TrialError
from autosync.spec import ModelProfile, ModelSpec, RuntimeRecord
from autosync.studies.collect import block
from autosync.studies.collect.block import Block, Conditions
from autosync.studies.collect.events import Errand
from autosync.studies.collect.folder import Folder
from autosync.studies.collect.plan import Plan
from autosync.studies.collect.schedule import MOST_LOSSES, Done, Slot, slots_of
from tests.cases import mlp_model
from tests.studies.collect.plans import CELL, PretendBackend, plan

QUIET = Conditions(load_average=lambda: 0.25)


def collected(
    folder: Path, wanted: Plan, slots: list[Slot], backend: PretendBackend | None = None
) -> list[RuntimeRecord]:
    """Records in order of their slots, after those slots that a process of its own has worked off."""
    store = RecordStore.create(folder)
    block = Block(wanted, CELL, backend or PretendBackend(), store, QUIET)
    block.take_up(store.read())
    for slot in slots:
        block.time(slot)
    return sorted(store.read(), key=lambda each: each.sequence or 0)


def left(folder: Path, wanted: Plan) -> list[Slot]:
    rows = RecordStore.create(folder).read_table().select(["run", "sequence", "outcome"]).to_pylist()
    done = Done(wanted, ((row["run"], row["sequence"], row["outcome"]) for row in rows))
    return done.left(CELL, slots_of(wanted, CELL))


def test_a_cell_has_the_baselines_then_different_new_ones_and_repeats(tmp_path: Path) -> None:
    wanted = plan()
    slots = slots_of(wanted, CELL)
    records = collected(tmp_path, wanted, slots)
    assert [record.sequence for record in records] == [slot.number for slot in slots]
    new = [record for record in records if record.purpose != "remeasure"]
    assert len({record.strategy.digest for record in new}) == wanted.strategies
    baselines = [record.label for record in new if record.purpose == "baseline"]
    assert set(baselines) <= set(BASELINES)
    assert len(baselines) >= 5
    assert {record.label for record in new} - set(BASELINES) == {"random", "mutation", "crossover", "guided"}
    assert {record.label for record in new if record.predicted_seconds} == {"guided"}
    for slot, record in zip(slots, records, strict=True):
        if slot.original is not None:
            assert record.purpose == "remeasure"
            assert record.strategy == records[slot.original].strategy
            assert record.label == records[slot.original].label
    assert {record.run for record in records} == {"test/mlp@2x200mbit"}
    assert {record.load_average for record in records} == {0.25}
    assert {record.engine for record in records} == {ENGINE}


def test_a_collection_stopped_anywhere_ends_up_with_the_same_strategies(tmp_path: Path) -> None:
    wanted = plan(random_share=0.999, strategies=20)
    at_once = collected(tmp_path / "once", wanted, slots_of(wanted, CELL))
    for stop in (3, 11, 12):
        collected(tmp_path / "stopped", wanted, left(tmp_path / "stopped", wanted)[:stop])
    assert left(tmp_path / "stopped", wanted) == []
    stopped = sorted(RecordStore(tmp_path / "stopped").read(), key=lambda each: each.sequence or 0)
    assert [each.strategy.digest for each in stopped] == [each.strategy.digest for each in at_once]


@pytest.mark.thorough
def test_new_strategies_are_bred_from_what_was_fast(tmp_path: Path) -> None:
    wanted = plan(random_share=0.0, strategies=24)
    records = collected(tmp_path, wanted, slots_of(wanted, CELL))
    bred = [record for record in records if record.label in ("mutation", "crossover", "guided")]
    assert bred
    assert all((record.sequence or 0) >= wanted.breed_after for record in bred)


def test_a_lost_trial_is_run_again_with_the_same_strategy_until_it_is_given_up(tmp_path: Path) -> None:
    wanted = plan(strategies=6)
    first = collected(tmp_path / "probe", wanted, slots_of(wanted, CELL)[:1])[0]
    backend = PretendBackend(lost=[first.strategy.digest])
    for attempt in range(1, MOST_LOSSES + 1):
        slots = left(tmp_path / "lost", wanted)
        assert slots[0].number == 0, f"attempt {attempt}"
        collected(tmp_path / "lost", wanted, slots[:1], backend)
    assert [request.strategy.digest for request in backend.requests] == [first.strategy.digest] * MOST_LOSSES
    assert left(tmp_path / "lost", wanted)[0].number == 1


def test_two_lost_trials_in_a_row_tell_that_the_cluster_is_broken(tmp_path: Path) -> None:
    wanted = plan()
    every = {record.strategy.digest for record in collected(tmp_path / "probe", wanted, slots_of(wanted, CELL)[:2])}
    block = Block(wanted, CELL, PretendBackend(lost=every), RecordStore.create(tmp_path / "lost"), QUIET)
    slots = slots_of(wanted, CELL)
    block.time(slots[0])
    assert not block.is_broken
    block.time(slots[1])
    assert block.is_broken


def test_a_repeat_of_what_was_never_timed_is_passed_over(tmp_path: Path) -> None:
    block = Block(plan(), CELL, PretendBackend(), RecordStore.create(tmp_path), QUIET)
    assert block.time(Slot(number=9, ordinal=8, original=1)) is None
    assert RecordStore(tmp_path).read() == []


def test_a_slow_trial_is_stopped_against_the_cell_s_best(tmp_path: Path) -> None:
    backend = PretendBackend()
    collected(tmp_path, plan(), slots_of(plan(), CELL)[:3], backend)
    best = [request.best_median_seconds for request in backend.requests]
    assert best[0] is None
    assert all(each is not None and each > 0 for each in best[1:])


def test_records_of_another_model_under_the_same_name_are_refused(tmp_path: Path) -> None:
    collected(tmp_path, plan(), slots_of(plan(), CELL)[:1])
    changed = PretendBackend(model=mlp_model(widths=(64, 128, 10)))
    with pytest.raises(TrialError, match=r"All records of a cell are of one model, but mlp@2x200mbit's was .* collect"):
        collected(tmp_path, plan(), [], changed)
    with pytest.raises(TrialError, match=r"of one cluster, but mlp@2x200mbit's was"):
        collected(tmp_path, plan(), [], PretendBackend(nodes=3))


def test_records_of_another_engine_under_the_same_name_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collected(tmp_path, plan(), slots_of(plan(), CELL)[:1])
    monkeypatch.setattr(block, "ENGINE", ENGINE + 1)
    with pytest.raises(
        TrialError, match=rf"of one version of the engine, but .* was {ENGINE} and now is {ENGINE + 1};"
    ):
        collected(tmp_path, plan(), [])


def _profiled(seconds: float) -> ModelSpec:
    model = mlp_model()
    ready = {variable.name: 0.5 for variable in model.variables}
    return replace(model, profile=ModelProfile(seconds, 2 * seconds, ready))


def test_a_model_is_profiled_once_for_all_records_of_a_folder(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    first = folder.profiled(_profiled(0.1))
    assert folder.profiled(_profiled(0.2)).profile == folder.profiled(mlp_model()).profile == first.profile
    kept = replace(QUIET, model=folder.profiled(_profiled(0.2)))
    block = Block(plan(), CELL, PretendBackend(), RecordStore.create(folder.records), kept)
    block.time(slots_of(plan(), CELL)[0])
    assert [each.model.profile for each in RecordStore(folder.records).read()] == [first.profile]


def test_a_profile_of_another_model_of_that_name_is_replaced(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.profiled(_profiled(0.1))
    wider = mlp_model((64, 300, 10))
    ready = {variable.name: 0.5 for variable in wider.variables}
    other = replace(wider, profile=ModelProfile(0.3, 0.4, ready))
    assert folder.profiled(other).profile == other.profile
    assert folder.profiled(wider).profile == other.profile


def test_an_errand_without_an_end_reads_back_as_it_was_sent(tmp_path: Path) -> None:
    errand = Errand(tmp_path / "plan.yaml", tmp_path, "2x1gbit", ("mlp",), 1, math.inf, 0.0)
    for each in (errand, replace(errand, profile=tmp_path / "h100.json")):
        assert Errand.from_json(each.to_json()) == each
