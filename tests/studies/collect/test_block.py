"""Trials of a cell, one after the other, and a second process that continues from the records on disk."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from autosync.baselines import BASELINES, baselines_for, different_strategies
from autosync.dataset import RecordStore
from autosync.engine.core.registry import engine_named
from autosync.engine.core.versions import ENGINE, VERSIONS
from autosync.errors import TrialError
from autosync.spec import ModelProfile, ModelSpec, RuntimeRecord
from studies.collect import block
from studies.collect.block import Conditions, TrialBlock
from studies.collect.events import VisitRequest
from studies.collect.folder import Folder
from studies.collect.plan import Plan
from studies.collect.schedule import MOST_LOSSES, FinishedSlots, Slot, slots_of
from tests.cases import mlp_model
from tests.studies.collect.plans import CELL, PretendBackend, plan

QUIET = Conditions(load_average=lambda: 0.25)


def collected(
    folder: Path, wanted: Plan, slots: list[Slot], backend: PretendBackend | None = None
) -> list[RuntimeRecord]:
    """Time `slots` in a new block, as a new process would; return all records in order of their slots."""
    store = RecordStore.create(folder)
    block = TrialBlock(wanted, CELL, backend or PretendBackend(), store, QUIET)
    block.take_up(store.read())
    for slot in slots:
        block.time(slot)
    return sorted(store.read(), key=lambda record: record.sequence or 0)


def left(folder: Path, wanted: Plan) -> list[Slot]:
    rows = RecordStore.create(folder).read_table().select(["run", "sequence", "outcome"]).to_pylist()
    done = FinishedSlots(wanted, ((row["run"], row["sequence"], row["outcome"]) for row in rows))
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


def test_a_plan_for_pytorch_times_its_baselines_and_only_what_its_engine_carries_out(tmp_path: Path) -> None:
    wanted = plan(framework="pytorch")
    backend = PretendBackend()
    block = TrialBlock(wanted, CELL, backend, RecordStore.create(tmp_path), QUIET)
    known = baselines_for("pytorch")
    for slot in slots_of(wanted, CELL):
        block.time(slot)
    labels = [request.label for request in backend.requests if request.purpose == "baseline"]
    assert labels[0] == "ddp"
    assert labels == list(different_strategies(known, backend.model, backend.cluster))
    engine = engine_named("pytorch")
    assert not any(engine.refusals(request.strategy, backend.model, backend.cluster) for request in backend.requests)
    assert {request.label for request in backend.requests} >= {"random", "mutation", "guided"}


def test_records_of_pytorch_continue_a_cell_only_under_its_engine_s_version(tmp_path: Path) -> None:
    (record,) = collected(tmp_path, plan(), slots_of(plan(), CELL)[:1])
    versions = {**record.versions, "autosync.engine": str(VERSIONS["pytorch"])}
    other = replace(record, framework="pytorch", versions=versions)
    block = TrialBlock(plan(framework="pytorch"), CELL, PretendBackend(), RecordStore.create(tmp_path / "other"), QUIET)
    block.take_up([other])
    with pytest.raises(TrialError, match="need the same version of the engine"):
        block.take_up([record])


def test_a_rehearsed_trial_leaves_no_record(tmp_path: Path) -> None:
    backend, store = PretendBackend(), RecordStore.create(tmp_path)
    block = TrialBlock(plan(), CELL, backend, store, QUIET)
    first = slots_of(plan(), CELL)[0]
    block.rehearse(first)
    assert store.read() == []
    block.time(first)
    assert backend.requests[0] == backend.requests[1]
    assert len(store.read()) == 1


def test_a_collection_stopped_anywhere_ends_up_with_the_same_strategies(tmp_path: Path) -> None:
    wanted = plan(random_share=0.999, strategies=20)
    at_once = collected(tmp_path / "once", wanted, slots_of(wanted, CELL))
    for stop in (3, 11, 12):
        collected(tmp_path / "stopped", wanted, left(tmp_path / "stopped", wanted)[:stop])
    assert left(tmp_path / "stopped", wanted) == []
    stopped = sorted(RecordStore(tmp_path / "stopped").read(), key=lambda record: record.sequence or 0)
    assert [record.strategy.digest for record in stopped] == [record.strategy.digest for record in at_once]


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
    block = TrialBlock(wanted, CELL, PretendBackend(lost=every), RecordStore.create(tmp_path / "lost"), QUIET)
    slots = slots_of(wanted, CELL)
    block.time(slots[0])
    assert not block.is_broken
    block.time(slots[1])
    assert block.is_broken


def test_a_repeat_of_what_was_never_timed_is_passed_over(tmp_path: Path) -> None:
    block = TrialBlock(plan(), CELL, PretendBackend(), RecordStore.create(tmp_path), QUIET)
    assert block.time(Slot(number=9, ordinal=8, original=1)) is None
    assert RecordStore(tmp_path).read() == []


def test_a_slow_trial_is_stopped_against_the_cell_s_best(tmp_path: Path) -> None:
    backend = PretendBackend()
    collected(tmp_path, plan(), slots_of(plan(), CELL)[:3], backend)
    best = [request.best_median_seconds for request in backend.requests]
    assert best[0] is None
    assert all(seconds is not None and seconds > 0 for seconds in best[1:])


def test_records_of_another_model_under_the_same_name_are_refused(tmp_path: Path) -> None:
    collected(tmp_path, plan(), slots_of(plan(), CELL)[:1])
    changed = PretendBackend(model=mlp_model(widths=(64, 128, 10)))
    with pytest.raises(
        TrialError, match=r"All records of a cell need the same model, but for mlp@2x200mbit it was .* collect"
    ):
        collected(tmp_path, plan(), [], changed)
    with pytest.raises(TrialError, match=r"need the same cluster, but for mlp@2x200mbit it was"):
        collected(tmp_path, plan(), [], PretendBackend(nodes=3))


def test_records_of_another_engine_under_the_same_name_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collected(tmp_path, plan(), slots_of(plan(), CELL)[:1])
    monkeypatch.setattr(block, "VERSIONS", {**VERSIONS, "tensorflow": ENGINE + 1})
    with pytest.raises(
        TrialError, match=rf"need the same version of the engine, but .* was {ENGINE} and is now {ENGINE + 1};"
    ):
        collected(tmp_path, plan(), [])


def _profiled(seconds: float) -> ModelSpec:
    model = mlp_model()
    ready = {variable.name: 0.5 for variable in model.variables}
    return replace(model, profile=ModelProfile(seconds, 2 * seconds, ready))


def test_a_model_is_profiled_once_for_all_records_of_a_folder(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    first = folder.with_profile(_profiled(0.1))
    assert folder.with_profile(_profiled(0.2)).profile == folder.with_profile(mlp_model()).profile == first.profile
    kept = replace(QUIET, model=folder.with_profile(_profiled(0.2)))
    block = TrialBlock(plan(), CELL, PretendBackend(), RecordStore.create(folder.records), kept)
    block.time(slots_of(plan(), CELL)[0])
    assert [record.model.profile for record in RecordStore(folder.records).read()] == [first.profile]


def test_a_profile_of_another_model_of_that_name_is_replaced(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.with_profile(_profiled(0.1))
    wider = mlp_model((64, 300, 10))
    ready = {variable.name: 0.5 for variable in wider.variables}
    with_profile = replace(wider, profile=ModelProfile(0.3, 0.4, ready))
    assert folder.with_profile(with_profile).profile == with_profile.profile
    assert folder.with_profile(wider).profile == with_profile.profile


def test_a_visit_request_without_an_end_reads_back_as_it_was_sent(tmp_path: Path) -> None:
    endless = VisitRequest(tmp_path / "plan.yaml", tmp_path, "2x1gbit", ("mlp",), 1, math.inf, 0.0)
    for request in (endless, replace(endless, profile=tmp_path / "h100.json")):
        assert VisitRequest.from_json(request.to_json()) == request
