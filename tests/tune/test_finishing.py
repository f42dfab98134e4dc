"""The end of a search over made-up trials: the files, the worths of decisions, and a report that cannot be written."""

from __future__ import annotations

import csv
import json
import re
import time
from dataclasses import replace
from io import StringIO
from pathlib import Path

import jsonschema
import pytest

from autosync.runs import REVERTED, read_run, result_schema
from autosync.spec import RuntimeRecord
from autosync.tune import finishing
from autosync.tune.campaign import SearchLimits
from autosync.tune.finals import measure_worths
from autosync.tune.finishing import finish, print_interrupted
from autosync.tune.job import Job
from tests.tune.pretend import Kept, PretendBackend, campaign, pretended_job, printed

TRIALS, ROUNDS = 12, 3
STOPPED = "The limit of 12 trials was reached."


def job(directory: Path, **values: object) -> Job:
    return pretended_job(directory, PretendBackend(), rounds=ROUNDS, **values)


def searched(job: Job) -> list[RuntimeRecord]:
    """Records of a search in which a trial's duration follows from the strategy's digest, stored as the run's
    records.
    """
    kept = Kept()
    campaign("random", SearchLimits(TRIALS), kept).run(PretendBackend().run)
    records = [replace(record, run=job.directory.name) for record in kept.records]
    for record in records:
        job.append(record)
    return records


def test_a_finished_search_leaves_its_result_its_rows_and_its_report(tmp_path: Path) -> None:
    search = job(tmp_path)
    assert finish(search, searched(search), STOPPED) is not None
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    jsonschema.validate(result, result_schema())
    assert "counterfactuals" not in result
    rows = list(csv.DictReader(StringIO((tmp_path / "run" / "trials.csv").read_text())))
    assert len(rows) == len(read_run(tmp_path / "run").records) == TRIALS + ROUNDS * 4
    assert f"Report:   {tmp_path / 'run' / 'report.html'}" in printed(search)
    assert (tmp_path / "run" / "report.html").exists()


def test_baselines_alone_blame_no_candidate(tmp_path: Path) -> None:
    search = job(tmp_path)
    baselines = [record for record in searched(search) if record.purpose == "baseline"]
    assert finish(search, baselines, "All 3 trials have run.") is not None
    assert "No candidate was timed because the baselines used all trials or all time" in printed(search)
    assert "No candidate finished all steps" not in printed(search)


def test_decisions_of_the_winner_are_reverted_when_that_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autosync.tune.finishing.report_run", lambda _job: None)
    search = job(tmp_path, counterfactuals=2)
    assert finish(search, searched(search), STOPPED) is not None
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    jsonschema.validate(result, result_schema())
    assert result["verdict"]["beyond_noise"] is True
    assert [worth["rounds"] for worth in result["counterfactuals"]] == [ROUNDS] * 2
    again = [record for record in read_run(tmp_path / "run").records if record.label.startswith(REVERTED)]
    labels = ["nothing", *(worth["label"] for worth in result["counterfactuals"])]
    assert [record.label.removeprefix(REVERTED) for record in again] == labels * ROUNDS
    assert {record.purpose for record in again} == {"remeasure"}
    assert [record.strategy.digest for record in again[:3]] == [
        result["verdict"]["winner"],
        *(worth["strategy_digest"] for worth in result["counterfactuals"]),
    ]
    for worth in result["counterfactuals"]:
        low, high = worth["worth_interval"]
        assert low <= worth["worth"] <= high
        assert worth["label"] in printed(search)


def test_a_spent_time_budget_reverts_nothing_more(tmp_path: Path) -> None:
    search = replace(job(tmp_path, counterfactuals=1, time_budget_seconds=5.0), begin=time.monotonic() - 60.0)
    winner = next(record for record in searched(search) if record.purpose == "search")
    (worth,) = measure_worths(search, winner)
    assert (worth.ratio, worth.rounds, worth.note) == (None, 0, "The time ended before this decision was measured.")


def test_a_report_that_cannot_be_drawn_is_a_sentence_and_the_run_ends_as_it_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_run: object) -> Path:
        raise ZeroDivisionError("no pencil")

    monkeypatch.setattr(finishing, "write_report", broken)
    search = job(tmp_path)
    assert finish(search, searched(search), STOPPED) is not None
    assert (
        f"The report could not be written (ZeroDivisionError: no pencil). "
        f"Write it again with: autosync report {tmp_path / 'run'}\n"
    ) in printed(search)
    assert "Next, train with " in printed(search)
    assert (tmp_path / "run" / "trials.csv").exists()


@pytest.mark.parametrize(
    ("values", "before"),
    [
        ({}, ""),
        ({"emulate": "topologies/two racks.yaml"}, "autosync emulate up 'topologies/two racks.yaml' && "),
        ({"emulate": "4x200mbit"}, "autosync emulate up --nodes 4 --link 200mbit && "),
    ],
)
def test_a_strategy_is_trained_with_on_the_cluster_it_was_found_on(
    tmp_path: Path, values: dict[str, str], before: str
) -> None:
    search = job(tmp_path, **values)
    assert finish(search, searched(search), STOPPED) is not None
    there = f"{before}autosync emulate exec -- " if before else ""
    assert re.search(
        rf"Next, train with the returned strategy: {re.escape(there)}autosync train --model ", printed(search)
    )


def test_ctrl_c_while_the_report_is_drawn_still_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_run: object) -> Path:
        raise KeyboardInterrupt

    monkeypatch.setattr(finishing, "write_report", interrupted)
    search = job(tmp_path)
    print_interrupted(search, searched(search), ["--model", "mlp"])
    lines = printed(search).splitlines()
    assert lines[-2].startswith("The report was interrupted. Write it again with: ")
    assert lines[-1] == f"Resume with: autosync tune --model mlp --out {tmp_path / 'run'} --resume"


def test_a_search_without_a_success_has_a_report_all_the_same(tmp_path: Path) -> None:
    search = job(tmp_path)
    assert finish(search, [], "") is None
    assert (tmp_path / "run" / "report.html").exists()
