"""Cells: the records in a cell, a strategy's true time, hits, and cells that are passed over."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace
from pathlib import Path

import pytest

from autosync.dataset import RecordStore
from autosync.errors import DatasetError
from autosync.spec import RuntimeRecord
from autosync.tune.recorded.cells import cells_of, read_cells
from studies.bench.columns import facts_of
from tests.tune.recorded.examples import REPEATED, cell, records_of, write_dataset

BOTH = [*records_of("two"), *records_of("three")]


def test_a_model_on_a_cluster_is_a_cell_called_as_its_collection_calls_it() -> None:
    cells, passed_over = cells_of(BOTH)
    assert [read_cell.name for read_cell in cells] == ["mlp@three", "mlp@two"]
    assert passed_over == []


def test_cells_that_would_be_called_alike_are_told_apart() -> None:
    cells, _ = cells_of([replace(record, run="x/mlp@same") for record in BOTH])
    names = [read_cell.name for read_cell in cells]
    assert len(set(names)) == 2
    assert all(name.startswith("mlp@same-") for name in names)


def test_what_is_true_is_the_median_of_trials() -> None:
    searchable = cell()
    repeated = [trials for trials in searchable.trials.values() if len(trials) == 2]
    assert len(repeated) == REPEATED
    for strategy, trials in searchable.trials.items():
        medians = [record.median_seconds for record in trials if record.median_seconds is not None]
        assert searchable.seconds[strategy] == (statistics.median(medians) if medians else math.inf)
    assert searchable.best_seconds == min(searchable.seconds.values())


def test_baselines_come_in_the_order_they_were_timed() -> None:
    labels = [record.label for record in records_of("two") if record.purpose == "baseline"]
    assert [label for label, _ in cell().baselines] == labels


def test_a_hit_is_a_trial_that_the_report_s_rule_calls_one() -> None:
    """The medians of both trials have errors: a hit needs 2 sqrt(2) deviations, and a little more for the noise
    within trials.
    """
    searchable = cell()
    best = searchable.trials[searchable.best_baseline[1]][0]
    close, far = (faster(best, math.exp(-deviations * searchable.deviation)) for deviations in (2.7, 4.5))
    assert not searchable.is_hit(best)
    assert not searchable.is_hit(close)
    assert searchable.is_hit(far)
    assert not searchable.is_hit(replace(far, outcome="stopped", reason="it was slow"))


def faster(record: RuntimeRecord, times: float) -> RuntimeRecord:
    return replace(record, step_seconds=tuple(times * seconds for seconds in record.step_seconds))


def test_lost_trials_say_nothing() -> None:
    first = next(records_of("two"))
    lost = replace(first, outcome="lost", reason="its node left", step_seconds=(), started_at=0.0)
    (with_lost,), _ = cells_of([lost, *records_of("two")])
    assert with_lost.digest == cell().digest


def test_other_times_make_another_digest() -> None:
    records = list(records_of("two"))
    (altered,), _ = cells_of([*records[:-2], replace(records[-2], started_at=1234.0)])
    assert altered.digest != cell().digest


def test_a_cell_with_few_strategies_is_passed_over_in_a_sentence() -> None:
    small = [record for record in records_of("two") if record.purpose == "baseline"]
    cells, passed_over = cells_of([*records_of("three"), *small])
    assert [read_cell.name for read_cell in cells] == ["mlp@three"]
    assert passed_over == [
        f"mlp@two has {len(small)} timed strategies and {len(small)} baselines, but needs 12 and 1; "
        "collect more trials of it."
    ]


def test_a_folder_is_read_whether_it_holds_records_or_is_them(tmp_path: Path) -> None:
    folder = write_dataset(tmp_path / "data")
    assert [read_cell.name for read_cell in read_cells(folder)[0]] == ["mlp@three", "mlp@two"]
    assert [read_cell.digest for read_cell in read_cells(folder / "records")[0]] == [
        read_cell.digest for read_cell in read_cells(folder)[0]
    ]
    assert [read_cell.name for read_cell in read_cells(folder, ["mlp@two"])[0]] == ["mlp@two"]
    assert read_cells(folder, ["mlp@two"])[0][0].digest == cell().digest


def test_what_cannot_be_read_is_said_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"but there is no folder .*nowhere; name another\."):
        read_cells(tmp_path / "nowhere")
    RecordStore.create(tmp_path / "few").append(next(records_of("two")))
    with pytest.raises(DatasetError, match=r"No cell in .*few has 12 timed strategies; collect more trials\."):
        read_cells(tmp_path / "few")
    folder = write_dataset(tmp_path / "data")
    with pytest.raises(DatasetError, match=r"Cells in .* are mlp@three, mlp@two; not 'mlp@four'; name one of them\."):
        read_cells(folder, ["mlp@four"])


def test_the_share_of_hits_is_of_all_trials_but_those_of_baselines_which_are_none_when_timed_again_either() -> None:
    """All searched trials are twenty times as fast, and hits. Counting any other trial would bring the share below
    one.
    """
    timed = [record for record in records_of("two") if record.outcome == "ok"]
    baselines = [record for record in timed if record.purpose == "baseline"]
    again = [replace(record, purpose="remeasure", started_at=record.started_at + 1000) for record in baselines]
    searched = [faster(record, 0.05) for record in timed if record.purpose != "baseline"]
    (searchable,), _ = cells_of([*baselines, *again, *searched])
    assert facts_of(searchable)["hit_share"] == 1.0


def test_facts_say_what_there_is_to_find() -> None:
    searchable = cell()
    facts = facts_of(searchable)
    assert (facts["pool"], facts["model"], facts["replicas"]) == (len(searchable.trials), "mlp", 2)
    assert facts["records"] == sum(map(len, searchable.trials.values()))
    assert facts["baseline_label"] == searchable.best_baseline[0]
    assert facts["log10_size"] == searchable.space.log10_size
    assert 1 <= facts["within_5_percent"] <= len(searchable.trials)
