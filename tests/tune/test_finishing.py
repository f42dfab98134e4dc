"""The end of a search over made-up trials: what is written, what decisions are worth, and a report that cannot be."""

from __future__ import annotations

import csv
import json
import time
from dataclasses import replace
from io import StringIO
from pathlib import Path

import jsonschema
import pytest

from autosync.runs import REVERTED, read_run, result_schema
from autosync.spec import RuntimeRecord
from autosync.tune import finishing
from autosync.tune.campaign import Limits
from autosync.tune.finals import measure_worths
from autosync.tune.finishing import finish, print_interrupted
from autosync.tune.job import Job
from tests.tune.pretend import Kept, PretendBackend, campaign, pretended_job, printed

TRIALS, ROUNDS = 12, 3
STOPPED = "The limit of 12 trials was reached."


def job(directory: Path, **given: object) -> Job:
    return pretended_job(directory, PretendBackend(), rounds=ROUNDS, **given)


def searched(job: Job) -> list[RuntimeRecord]:
    """Records of a search whose trials take as long as their strategies' digests say, kept as the run's."""
    kept = Kept()
    campaign("random", Limits(TRIALS), kept).run(PretendBackend().run)
    records = [replace(each, run=job.directory.name) for each in kept.records]
    for each in records:
        job.append(each)
    return records


def test_a_finished_search_leaves_its_result_its_rows_and_its_report(tmp_path: Path) -> None:
    one = job(tmp_path)
    assert finish(one, searched(one), STOPPED) == 0
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    jsonschema.validate(result, result_schema())
    assert "counterfactuals" not in result
    rows = list(csv.DictReader(StringIO((tmp_path / "run" / "trials.csv").read_text())))
    assert len(rows) == len(read_run(tmp_path / "run").records) == TRIALS + ROUNDS * 4
    assert f"Report:   {tmp_path / 'run' / 'report.html'}" in printed(one)
    assert (tmp_path / "run" / "report.html").exists()


def test_baselines_alone_blame_no_candidate(tmp_path: Path) -> None:
    one = job(tmp_path)
    baselines = [record for record in searched(one) if record.purpose == "baseline"]
    assert finish(one, baselines, "All 3 trials have run.") == 0
    assert "No candidate was searched, because baselines took all trials or all time" in printed(one)
    assert "None ran all its steps" not in printed(one)


def test_decisions_of_the_winner_are_reverted_when_that_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autosync.tune.finishing.report_run", lambda _job: None)
    one = job(tmp_path, counterfactuals=2)
    assert finish(one, searched(one), STOPPED) == 0
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    jsonschema.validate(result, result_schema())
    assert result["verdict"]["beyond_noise"] is True
    assert [each["rounds"] for each in result["counterfactuals"]] == [ROUNDS] * 2
    again = [each for each in read_run(tmp_path / "run").records if each.label.startswith(REVERTED)]
    labels = ["nothing", *(each["label"] for each in result["counterfactuals"])]
    assert [each.label.removeprefix(REVERTED) for each in again] == labels * ROUNDS
    assert {each.purpose for each in again} == {"remeasure"}
    assert [each.strategy.digest for each in again[:3]] == [
        result["verdict"]["winner"],
        *(each["strategy_digest"] for each in result["counterfactuals"]),
    ]
    for each in result["counterfactuals"]:
        low, high = each["worth_interval"]
        assert low <= each["worth"] <= high
        assert each["label"] in printed(one)


def test_a_spent_time_budget_reverts_nothing_more(tmp_path: Path) -> None:
    one = replace(job(tmp_path, counterfactuals=1, time_budget_seconds=5.0), begin=time.monotonic() - 60.0)
    winner = next(record for record in searched(one) if record.purpose == "search")
    (worth,) = measure_worths(one, winner)
    assert (worth.ratio, worth.rounds, worth.note) == (None, 0, "There was no time for it.")


def test_a_report_that_cannot_be_drawn_is_a_sentence_and_the_run_ends_as_it_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_run: object) -> Path:
        raise ZeroDivisionError("no pencil")

    monkeypatch.setattr(finishing, "write_report", broken)
    one = job(tmp_path)
    assert finish(one, searched(one), STOPPED) == 0
    assert (
        f"The report could not be drawn (ZeroDivisionError: no pencil). "
        f"Draw it with: autosync report {tmp_path / 'run'}\n"
    ) in printed(one)
    assert "Train with it:" in printed(one)
    assert (tmp_path / "run" / "trials.csv").exists()


@pytest.mark.parametrize(
    ("given", "before"),
    [
        ({}, ""),
        ({"emulate": "topologies/two racks.yaml"}, "autosync emulate up 'topologies/two racks.yaml' && "),
        ({"emulate": "4x200mbit"}, "autosync emulate up --nodes 4 --link 200mbit && "),
    ],
)
def test_a_strategy_is_trained_with_on_the_cluster_it_was_found_on(
    tmp_path: Path, given: dict[str, str], before: str
) -> None:
    one = job(tmp_path, **given)
    assert finish(one, searched(one), STOPPED) == 0
    there = f"{before}autosync emulate exec -- " if before else ""
    assert f"Train with it: {there}autosync train --model " in printed(one)


def test_ctrl_c_while_the_report_is_drawn_still_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_run: object) -> Path:
        raise KeyboardInterrupt

    monkeypatch.setattr(finishing, "write_report", interrupted)
    one = job(tmp_path)
    print_interrupted(one, searched(one), ["--model", "mlp"])
    lines = printed(one).splitlines()
    assert lines[-2].startswith("The report was not finished. Draw it with: ")
    assert lines[-1] == f"Go on with: autosync tune --model mlp --out {tmp_path / 'run'} --resume"


def test_a_search_without_a_success_has_a_report_all_the_same(tmp_path: Path) -> None:
    one = job(tmp_path)
    assert finish(one, [], "") == 1
    assert (tmp_path / "run" / "report.html").exists()
