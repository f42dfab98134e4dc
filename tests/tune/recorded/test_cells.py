"""Cells: which records are one, what is true of a strategy, what is a hit, and what is passed over."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace
from pathlib import Path

import pytest

from autosync.dataset import RecordStore
from autosync.errors import DatasetError
from autosync.spec import RuntimeRecord
from autosync.studies.bench.columns import facts_of
from autosync.tune.recorded.cells import read_cells, recorded_cells
from tests.tune.recorded.examples import REPEATED, cell, records_of, write_dataset

BOTH = [*records_of("two"), *records_of("three")]


def test_a_model_on_a_cluster_is_a_cell_called_as_its_collection_calls_it() -> None:
    cells, passed_over = recorded_cells(BOTH)
    assert [each.name for each in cells] == ["mlp@three", "mlp@two"]
    assert passed_over == []


def test_cells_that_would_be_called_alike_are_told_apart() -> None:
    cells, _ = recorded_cells([replace(each, run="x/mlp@same") for each in BOTH])
    names = [each.name for each in cells]
    assert len(set(names)) == 2
    assert all(name.startswith("mlp@same-") for name in names)


def test_what_is_true_is_the_median_of_trials() -> None:
    found = cell()
    repeated = [trials for trials in found.trials.values() if len(trials) == 2]
    assert len(repeated) == REPEATED
    for strategy, trials in found.trials.items():
        medians = [each.median_seconds for each in trials if each.median_seconds is not None]
        assert found.seconds[strategy] == (statistics.median(medians) if medians else math.inf)
    assert found.best_seconds == min(found.seconds.values())


def test_baselines_come_in_the_order_they_were_timed() -> None:
    labels = [each.label for each in records_of("two") if each.purpose == "baseline"]
    assert [label for label, _ in cell().baselines] == labels


def test_a_hit_is_a_trial_that_the_report_s_rule_calls_one() -> None:
    """Medians of both trials err: 2 sqrt(2) deviations are needed, and some more for the noise within them."""
    found = cell()
    best = found.trials[found.best_baseline[1]][0]
    close, far = (faster(best, math.exp(-deviations * found.deviation)) for deviations in (2.7, 4.5))
    assert not found.is_hit(best)
    assert not found.is_hit(close)
    assert found.is_hit(far)
    assert not found.is_hit(replace(far, outcome="stopped", reason="it was slow"))


def faster(record: RuntimeRecord, times: float) -> RuntimeRecord:
    return replace(record, step_seconds=tuple(times * each for each in record.step_seconds))


def test_lost_trials_say_nothing() -> None:
    first = next(records_of("two"))
    lost = replace(first, outcome="lost", reason="its node left", step_seconds=(), started_at=0.0)
    (with_lost,), _ = recorded_cells([lost, *records_of("two")])
    assert with_lost.digest == cell().digest


def test_other_times_make_another_digest() -> None:
    records = list(records_of("two"))
    (other,), _ = recorded_cells([*records[:-2], replace(records[-2], started_at=1234.0)])
    assert other.digest != cell().digest


def test_a_cell_with_few_strategies_is_passed_over_in_a_sentence() -> None:
    small = [each for each in records_of("two") if each.purpose == "baseline"]
    cells, passed_over = recorded_cells([*records_of("three"), *small])
    assert [each.name for each in cells] == ["mlp@three"]
    assert passed_over == [
        f"mlp@two has {len(small)} timed strategies and {len(small)} baselines, but needs 12 and one; "
        "collect more of it."
    ]


def test_a_folder_is_read_whether_it_holds_records_or_is_them(tmp_path: Path) -> None:
    folder = write_dataset(tmp_path / "data")
    assert [each.name for each in read_cells(folder)[0]] == ["mlp@three", "mlp@two"]
    assert [each.digest for each in read_cells(folder / "records")[0]] == [
        each.digest for each in read_cells(folder)[0]
    ]
    assert [each.name for each in read_cells(folder, ["mlp@two"])[0]] == ["mlp@two"]
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
    """Searched trials are all twenty times as fast, and hits: what else is counted brings the share below one."""
    timed = [each for each in records_of("two") if each.outcome == "ok"]
    baselines = [each for each in timed if each.purpose == "baseline"]
    again = [replace(each, purpose="remeasure", started_at=each.started_at + 1000) for each in baselines]
    searched = [faster(each, 0.05) for each in timed if each.purpose != "baseline"]
    (found,), _ = recorded_cells([*baselines, *again, *searched])
    assert facts_of(found)["hit_share"] == 1.0


def test_facts_say_what_there_is_to_find() -> None:
    found = cell()
    facts = facts_of(found)
    assert (facts["pool"], facts["model"], facts["replicas"]) == (len(found.trials), "mlp", 2)
    assert facts["records"] == sum(map(len, found.trials.values()))
    assert facts["baseline_label"] == found.best_baseline[0]
    assert facts["log10_size"] == found.space.log10_size
    assert 1 <= facts["within_5_percent"] <= len(found.trials)
