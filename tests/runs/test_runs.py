"""Reading a run, listing runs, and exporting a run's trials for programs."""

from __future__ import annotations

import csv
import io
import json
import os
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from autosync.dataset import RecordStore
from autosync.errors import AutosyncError
from autosync.runs import (
    COLUMNS,
    REVERTED,
    contenders_of,
    csv_of,
    json_of,
    list_runs,
    read_run,
    result_schema,
    run_called,
    trial_rows,
    verdict_in_words,
)
from autosync.spec import Pace
from tests.runs.examples import CLUSTER, MODEL, Story, search_records, write_finished_run, write_run


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("whole") / "runs" / "one"
    write_finished_run(directory)
    return directory


def test_a_finished_run_reads_back_with_its_trials_its_finals_and_its_verdict(finished: Path) -> None:
    run = read_run(finished)
    assert (run.model, run.cluster) == (MODEL, CLUSTER)
    assert run.title == "one"
    assert [trial.label for trial in run.trials] == [record.label for record in search_records()]
    assert len(run.finals) == 12
    assert len([record for record in run.records if record.label.startswith(REVERTED)]) == 16
    assert run.verdict is not None
    assert run.winner_digest == run.verdict["winner"]
    winner = run.strategy_with(run.winner_digest)
    assert winner is not None
    assert winner == run.strategy
    assert run.strategy_with("0" * 16) is None


def test_a_real_result_is_as_the_schema_says_and_the_schema_describes_every_field(finished: Path) -> None:
    schema = result_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    result = json.loads((finished / "result.json").read_text())
    jsonschema.validate(result, schema)
    assert set(result) | {"time", "numbers"} == set(schema["properties"])  # these two only if passes were paced
    marks = {"time": "paced", "numbers": "recorded"}
    jsonschema.validate(result | marks | {"verdict": result["verdict"] | marks}, schema)
    for wrong in (result | {"unknown": 1}, result | {"trials": -1}, {**result, "verdict": {}}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema)


def test_an_unfinished_run_knows_its_best_so_far(tmp_path: Path) -> None:
    records = search_records()[:4]
    write_run(tmp_path / "runs" / "one", Story(records))
    run = read_run(tmp_path / "runs" / "one")
    best = min(records, key=lambda record: record.median_seconds or 0.0)
    assert (run.verdict, run.result, run.strategy, run.probe) == (None, None, None, None)
    assert run.winner_digest == run.best_baseline_digest == best.strategy.digest


def test_lost_trials_and_those_on_another_cluster_are_no_trials_of_the_run(tmp_path: Path) -> None:
    first, second, third = search_records()[:3]
    lost = replace(first, outcome="lost", reason="a node left", step_seconds=())
    elsewhere = replace(second, cluster=replace(CLUSTER, nodes=tuple(replace(n, cores=9.0) for n in CLUSTER.nodes)))
    write_run(tmp_path / "runs" / "one", Story((lost, elsewhere, third)))
    run = read_run(tmp_path / "runs" / "one")
    assert len(run.records) == 3
    assert [trial.label for trial in run.trials] == [third.label]


def test_records_are_found_beside_a_run_that_was_moved(tmp_path: Path) -> None:
    made = write_run(tmp_path / "runs" / "one", Story(search_records()[:2]), data=tmp_path / "kept")
    (tmp_path / "kept").rename(tmp_path / "data")
    assert len(read_run(made.path).records) == 2
    (tmp_path / "data").rename(tmp_path / "hidden")
    run = read_run(made.path)
    assert (run.records, run.data) == ((), None)
    assert len(read_run(made.path, tmp_path / "hidden").records) == 2


def test_contenders_are_the_same_by_records_and_by_the_result(finished: Path) -> None:
    run = read_run(finished)
    by_records, by_result = contenders_of(run), contenders_of(replace(run, records=()))
    assert [contender.digest for contender in by_records] == [contender.digest for contender in by_result]
    for from_records, from_result in zip(by_records, by_result, strict=True):
        assert replace(from_records, turns={}, architecture=None) == from_result


def test_of_finals_that_were_held_twice_the_last_count(finished: Path) -> None:
    run = read_run(finished)
    earlier = [replace(final, started_at=final.started_at - 1000.0) for final in run.finals[:6]]
    stranger = replace(run.trials[0], purpose="remeasure", started_at=run.finals[0].started_at - 900.0)
    records = sorted((*run.records, *earlier, stranger), key=lambda record: record.started_at)
    again = replace(run, records=tuple(records))
    assert again.finals == run.finals
    assert len(replace(again, result=None).finals) == len(run.finals) + 7


def test_runs_are_listed_the_latest_first_with_how_far_they_are(finished: Path, tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    write_run(folder / "begun", Story(()))
    (folder / "no run").mkdir()
    (folder / "done").symlink_to(finished)
    os.utime(folder / "begun" / "run.json", (2e9, 2e9))
    first, second = list_runs(folder)
    assert (first.title, first.state, first.trials, first.speedup) == ("begun", "unfinished", None, None)
    assert (second.title, second.state, second.nodes, second.model) == ("done", "finished", 4, "bert-like")
    assert second.speedup is not None
    assert second.speedup > 1.2
    assert second.speedup_interval is not None
    assert second.seconds == 321.0
    assert run_called(None, folder) == folder / "begun"
    assert run_called("done", folder) == folder / "done"


def test_a_folder_of_runs_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(AutosyncError, match=r"Runs are listed in a folder, but .*gone cannot be read: No such file or"):
        list_runs(tmp_path / "gone")
    with pytest.raises(AutosyncError, match=r"There is no search in .*gone; name a run's directory\."):
        run_called(None, tmp_path / "gone")


def test_trials_are_exported_one_a_row_with_what_their_columns_say(finished: Path) -> None:
    records = read_run(finished).records
    rows = list(csv.DictReader(io.StringIO(csv_of(records))))
    assert list(rows[0]) == list(COLUMNS)
    assert [row["sequence"] for row in rows] == [str(number) for number in range(1, len(records) + 1)]
    ok = next(row for row in rows if row["outcome"] == "ok")
    assert float(ok["interval_low_seconds"]) <= float(ok["median_seconds"]) <= float(ok["interval_high_seconds"])
    assert ok["started_at"].endswith("+00:00")
    failed = next(row for row in rows if row["outcome"] == "failed")
    assert (failed["median_seconds"], failed["reason"]) == ("", "ValueError: no <b>memory</b> left")
    assert json.loads(json_of(records)) == trial_rows(records)


def test_exported_trials_have_their_kind_where_they_are_not_real(finished: Path) -> None:
    records = read_run(finished).records
    cluster = records[0].cluster
    paced = replace(cluster, nodes=tuple(replace(node, pace=Pace(0.0, 0.1)) for node in cluster.nodes))
    rows = list(csv.DictReader(io.StringIO(csv_of([replace(record, cluster=paced) for record in records]))))
    assert list(rows[0]) == [*COLUMNS, "time", "numbers"]
    assert {(row["time"], row["numbers"]) for row in rows} == {("paced", "recorded")}
    assert csv_of([]).splitlines() == [",".join(COLUMNS)]


VERDICT = {
    "winner": "0123456789abcdef", "winner_label": "guided", "baseline": "b" * 16, "baseline_label": "byteps",
    "speedup": 1.5, "speedup_interval": [1.2, 1.9], "beyond_noise": True, "rounds": 6, "candidate": "0123456789abcdef",
    "note": "",
}  # fmt: skip


def test_a_verdict_is_one_sentence() -> None:
    assert verdict_in_words(VERDICT) == (
        "The strategy guided 01234567 is 1.50 x as fast as the best baseline, byteps (95 % interval 1.20 to 1.90, "
        "6 paired rounds)."
    )
    assert verdict_in_words(VERDICT | {"beyond_noise": False, "note": "One."}) == (
        "No candidate is faster than the best baseline beyond the noise (the best candidate: 1.50 x as fast, 95 % "
        "interval 1.20 to 1.90, 6 paired rounds), so byteps is returned. One."
    )
    assert verdict_in_words(VERDICT | {"candidate": None}).startswith("No candidate could be compared, so the best")
    assert "changes the statistics of training" in verdict_in_words(VERDICT | {"changes_statistics": True})


def test_a_directory_that_is_no_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(AutosyncError) as refusal:
        read_run(tmp_path)
    assert str(refusal.value) == (
        f"A run is a directory with a run.json, but {tmp_path} has none; name a run's directory."
    )


def test_records_of_other_runs_are_not_a_runs(finished: Path) -> None:
    foreign = replace(search_records()[0], run="another")
    store = RecordStore(finished.parent / "data")
    before = len(read_run(finished).records)
    store.append(foreign)
    assert len(read_run(finished).records) == before
