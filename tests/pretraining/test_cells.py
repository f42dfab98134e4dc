"""Records grouped into cells: trials merged, parts separated, small cells named, noise estimated."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from autosync.dataset import RecordStore
from autosync.pretraining.cells import read_records
from autosync.spec import Pace, RuntimeRecord
from autosync.spec.pace import KINDS
from studies.evaluation import EvaluationError, build_cells
from tests.studies.evaluation.made_up import CLUSTERS, NOISE, cells, part_of, records_of


def test_a_cell_is_a_model_on_a_cluster_and_has_the_collections_names() -> None:
    assert [cell.name for cell in cells()] == ["mlp@four", "mlp@three", "ncf-like@four", "ncf-like@three"]


def test_trials_of_a_strategy_are_one_measurement_of_their_medians_median() -> None:
    first, *_ = records_of("mlp", "three", 30, 0)
    again = [
        replace(first, step_seconds=(seconds,) * 5, started_at=first.started_at + place)
        for place, seconds in enumerate((0.3, 0.1, 0.2), 1000)
    ]
    (cell,), _ = build_cells([*again, *records_of("mlp", "three", 30, 0)[1:]], part_of)
    measured = next(measurement for measurement in cell.measurements if measurement.digest == first.strategy.digest)
    assert measured.seconds == pytest.approx(0.2)
    assert [trial.started_at for trial in measured.trials] == [first.started_at + place for place in (1000, 1001, 1002)]
    first_log, second_log = cell.repeats
    assert (first_log[0], second_log[0]) == pytest.approx((-1.2040, -2.3026), abs=1e-4)


def test_a_strategy_is_in_one_part_with_all_its_trials() -> None:
    (cell,), _ = build_cells(records_of("mlp", "three"), part_of)
    assert sum(len(cell.part(part)) for part in ("train", "validation", "test")) == len(cell.measurements)
    digests = {part: {trial.strategy.digest for trial in cell.trials(part)} for part in ("train", "test")}
    assert not digests["train"] & digests["test"]
    assert all(part_of(digest) == part for part, members in digests.items() for digest in members)


def test_the_noise_of_a_trial_is_known_from_repeats() -> None:
    (cell,), _ = build_cells(records_of("mlp", "three", 100, 100), part_of)
    assert cell.deviation == pytest.approx(NOISE, rel=0.35)
    once, twice = (
        [measurement for measurement in cell.measurements if len(measurement.trials) == count] for count in (1, 2)
    )
    assert not once
    assert cell.errors(twice)[0] == pytest.approx(cell.deviation / 2**0.5)


def slower(record: RuntimeRecord, factor: float = 1.3) -> RuntimeRecord:
    """Return the same trial hours later, on a machine that has drifted."""
    steps = tuple(factor * seconds for seconds in record.step_seconds)
    return replace(record, started_at=record.started_at + 1e4, step_seconds=steps)


def test_what_the_machine_drifted_by_between_occasions_is_no_noise() -> None:
    recorded = records_of("mlp", "three", 100, 0)
    (cell,), _ = build_cells([*recorded, *map(slower, recorded)], part_of)
    assert cell.deviation < 0.02
    (first, second), *_ = (measurement.log_seconds for measurement in cell.test_measurements)
    assert second == pytest.approx(first, abs=0.03)


def test_what_is_tested_does_not_tell_how_far_the_machine_drifted() -> None:
    recorded = records_of("mlp", "three", 100, 0)
    later = [slower(record) for record in recorded if part_of(record.strategy.digest) == "test"]
    (cell,), _ = build_cells([*recorded, *later], part_of)
    assert {drift for measurement in cell.measurements for drift in measurement.drifts} == {0.0}


def test_cells_with_few_repeats_have_the_noise_of_all_together() -> None:
    few = [*records_of("mlp", "three", 60, 2), *records_of("mlp", "four", 60, 30)]
    first, second = build_cells(few, part_of)[0]
    alone, _ = build_cells(records_of("mlp", "four", 60, 30), part_of)
    assert {cell.cluster: cell.deviation for cell in (first, second)}["four"] == alone[0].deviation
    assert first.deviation > 0.005
    assert second.deviation > 0.005


def test_a_cell_too_small_is_passed_over_with_a_reason() -> None:
    kept, sentences = build_cells([*records_of("mlp", "three"), *records_of("mlp", "four", 6, 0)], part_of)
    assert [cell.name for cell in kept] == ["mlp@three"]
    (sentence,) = sentences
    assert sentence.startswith("mlp@four has ")
    assert sentence.endswith(" to test, but needs 10 and 5; collect more records of the cell.")


def test_too_few_records_are_refused_by_naming_every_cell() -> None:
    with pytest.raises(EvaluationError, match=r"No cell has enough strategies .*mlp@four has .*mlp@three has"):
        build_cells([*records_of("mlp", "three", 6, 0), *records_of("mlp", "four", 6, 0)], part_of)


def test_no_records_are_refused() -> None:
    failed = replace(records_of("mlp", "three")[0], outcome="failed", reason="it broke", step_seconds=())
    for nothing in ([], [failed]):
        with pytest.raises(EvaluationError, match="needs records with a step time, but there are none"):
            build_cells(nothing, part_of)


def test_a_cluster_without_a_name_is_called_after_what_it_is_made_of() -> None:
    unnamed = [replace(record, run="by-hand") for record in records_of("mlp", "three")]
    assert build_cells(unnamed, part_of)[0][0].cluster == "3-nodes-3-replicas"


def test_clusters_of_one_name_are_told_apart_by_their_digests() -> None:
    mixed = [*records_of("mlp", "three"), *records_of("mlp", "four")]
    names = [cell.cluster for cell in build_cells([replace(record, run="x/mlp@lab") for record in mixed], part_of)[0]]
    assert sorted(names) == sorted(f"lab-{cluster.digest[:6]}" for cluster in CLUSTERS.values())


def test_records_of_several_kinds_are_refused_until_one_is_named(tmp_path: Path) -> None:
    store = RecordStore.create(tmp_path)
    real = records_of("mlp", "three", 2, 0)
    nodes = tuple(replace(node, pace=Pace(0.0, 0.1, "held")) for node in real[0].cluster.nodes)
    paced = [replace(record, cluster=replace(record.cluster, nodes=nodes)) for record in real]
    for record in (*real, *paced):
        store.append(record)
    with pytest.raises(EvaluationError) as refusal:
        read_records(tmp_path)
    assert str(refusal.value) == (
        f"Times of different kinds are never compared, but the records in {tmp_path} are paced-held and real; choose "
        "one with --kind."
    )
    assert {record.kind for record in read_records(tmp_path, "paced-held")} == {"paced-held"}
    assert len(read_records(tmp_path, "real")) == len(real)
    with pytest.raises(EvaluationError, match=r"--kind virtual-held has no record in .*, whose records are"):
        read_records(tmp_path, "virtual-held")
    assert "virtual-held" in KINDS


def test_records_of_two_frameworks_are_never_mixed(tmp_path: Path) -> None:
    store = RecordStore.create(tmp_path)
    keras = records_of("mlp", "three", 2, 0)
    torch = [replace(record, framework="pytorch") for record in keras]
    for record in (*keras, *torch):
        store.append(record)
    with pytest.raises(EvaluationError) as refusal:
        read_records(tmp_path, "real")
    assert str(refusal.value) == (
        f"Times of different kinds are never compared, but the records in {tmp_path} are pytorch-real and real; choose "
        "one with --framework."
    )
    assert {record.framework for record in read_records(tmp_path, "real", "tensorflow")} == {None}
    assert {record.kind for record in read_records(tmp_path, framework="pytorch")} == {"pytorch-real"}
    with pytest.raises(
        EvaluationError, match=r"^--kind paced-held --framework pytorch has no record in .* are pytorch-real and real;"
    ):
        read_records(tmp_path, "paced-held", "pytorch")
