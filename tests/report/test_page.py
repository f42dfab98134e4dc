"""The report of a run: one self-contained page with the run's results, which says so if a result is missing."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from autosync.cost import step_bound
from autosync.report import write_report
from autosync.runs import read_run, verdict_in_words
from autosync.words.quantities import milliseconds
from tests.report.pages import Seen, seen
from tests.runs.examples import CLUSTER, MODEL, SEARCHED, STOPPED, Story, search_records, write_finished_run, write_run

EVIL = "<script>alert('1')</script> $x_$ & \"quoted\""
PICTURES = {
    "cluster",
    "contenders",
    "rounds",
    "search",
    "predictions",
    "strategy",
    "links",
    "step",
    "worths",
    "importance",
}
KEYS = [
    "asked", "cluster", "contenders", "search", "predictions", "strategy", "step", "difference", "worths",
    "importance",
    "failures", "conditions", "usage",
]  # fmt: skip


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run whose strategies have a label that would be markup, with the run's report."""
    directory = tmp_path_factory.mktemp("whole") / "runs" / "one"
    write_finished_run(directory, label=EVIL)
    write_report(read_run(directory))
    return directory


@pytest.fixture(scope="module")
def page(finished: Path) -> Seen:
    return seen(finished / "report.html")


def test_the_page_is_well_formed_and_loads_nothing_from_anywhere(page: Seen) -> None:
    assert page.faults == []
    assert page.tags["script"] == page.tags["link"] == page.tags["img"] == page.tags["iframe"] == 0


def test_every_section_is_there_once_and_can_be_reached(page: Seen) -> None:
    assert list(page.sections) == KEYS
    assert set(KEYS) <= set(page.links)


def test_every_picture_is_there_for_wide_and_for_narrow_screens_and_as_a_file(finished: Path, page: Seen) -> None:
    assert page.tags["figure"] == len(PICTURES)
    assert page.tags["svg"] == 2 * len(PICTURES)
    assert {file.stem for file in (finished / "report").iterdir()} == PICTURES
    for file in (finished / "report").iterdir():
        assert file.read_bytes().startswith(b"\x89PNG")


def test_what_no_strategy_goes_below_stands_beside_what_was_found(page: Seen) -> None:
    bound = step_bound(MODEL, CLUSTER)
    assert bound.seconds > 0
    assert milliseconds(bound.seconds) in page.text
    assert bound.reason in page.text


def test_every_caption_of_a_picture_says_of_how_many(finished: Path) -> None:
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", (finished / "report.html").read_text(), re.DOTALL)
    assert len(captions) == len(PICTURES)
    assert [caption for caption in captions if not re.search(r"\bn\s=\s\d+", caption)] == []


def test_pictures_take_all_their_colours_from_the_page(finished: Path) -> None:
    text = (finished / "report.html").read_text()
    drawn = "".join(re.findall(r"<svg .*?</svg>", text, re.DOTALL))
    assert "var(--ink)" in drawn
    assert re.findall(r"#[0-9a-fA-F]{6}\b", drawn) == []
    assert "@media screen and (prefers-color-scheme: dark)" in text
    assert "@media print" in text


def test_labels_are_shown_as_they_are_and_never_as_markup(finished: Path, page: Seen) -> None:
    assert EVIL in page.sections["search"]
    assert "alert('1')</script>" not in (finished / "report.html").read_text()
    assert "no <b>memory</b> left" in page.sections["failures"]


def test_the_page_says_the_verdict_with_its_interval_and_what_to_do(finished: Path, page: Seen) -> None:
    verdict = json.loads((finished / "result.json").read_text())["verdict"]
    assert verdict["beyond_noise"] is True
    low, high = verdict["speedup_interval"]
    assert f"{verdict['speedup']:.2f} \N{MULTIPLICATION SIGN}" in page.text
    assert f"95 % interval {low:.2f} to {high:.2f}" in page.text
    assert verdict_in_words(verdict) in page.text
    assert f"autosync train --model bert --strategy {finished / 'strategy.json'}" in page.text
    assert "has paid for itself after" in page.text


def test_the_space_is_said_with_its_size_and_effective_dimension(page: Seen) -> None:
    assert re.search(
        r"default: 10\^\d+\.\d strategies; \d+ variables to decide, effective dimension \d+\.\d", page.text
    )


def test_every_trial_and_every_variable_has_a_row(finished: Path, page: Seen) -> None:
    trials = read_run(finished).trials
    assert f"{len(trials)} trials in numbers" in page.sections["search"]
    rows = page.sections["search"].rpartition("in numbers")[2]
    searched = [trial.strategy.digest[:8] for trial in trials if trial.purpose == "search"]
    assert re.findall(r"\b[0-9a-f]{8}\b", rows) == searched
    assert [name for name in MODEL.by_name if name not in page.sections["strategy"]] == []


def test_what_was_reverted_stands_with_its_worth_and_interval(finished: Path, page: Seen) -> None:
    worths = json.loads((finished / "result.json").read_text())["counterfactuals"]
    assert len(worths) == 3
    for worth in worths:
        assert worth["label"] in page.sections["worths"]
        assert f"{worth['worth']:.2f} \N{MULTIPLICATION SIGN}" in page.sections["worths"]


def test_failures_are_grouped_and_counted(page: Seen) -> None:
    assert "3 records that are not ok" in page.sections["failures"]
    assert "After 5 timed steps" in page.sections["failures"]


def test_hits_are_counted_with_wilsons_interval_beside_those_drawn_at_random(page: Seen) -> None:
    assert re.search(rf"\d+ of {SEARCHED} searched trials are hits: \d+ % \(95 % interval", page.sections["search"])
    assert "drawn without the simulator" in page.sections["search"]


def test_why_the_search_ended_is_said(page: Seen) -> None:
    assert STOPPED in page.sections["search"]


NOTHING_YET = {
    "contenders": "No baseline has been timed yet.",
    "search": "No trial has been timed yet",
    "predictions": "No strategy was predicted before it was timed",
    "strategy": "No strategy has been timed completely yet",
    "difference": "There is no winner with records here yet",
    "worths": "Not measured. Add --counterfactuals 3",
    "importance": "0 strategies were timed; at least 20 are needed",
    "failures": "No trial has ended yet.",
    "conditions": "There are no records of this run here",
}


def test_a_run_that_has_only_begun_has_a_report_that_says_so_in_every_section(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "one", Story(()))
    page = seen(write_report(read_run(tmp_path / "runs" / "one")))
    assert page.faults == []
    for key, sentence in NOTHING_YET.items():
        assert sentence in page.sections[key]
    assert "No trial has ended yet." in page.text
    assert "--resume" in page.sections["usage"]


def test_a_run_that_was_interrupted_shows_its_best_so_far_and_calls_it_unproven(tmp_path: Path) -> None:
    records = tuple(replace(record, predicted_seconds=None) for record in search_records()[:6])
    write_run(tmp_path / "runs" / "one", Story(records))
    page = seen(write_report(read_run(tmp_path / "runs" / "one")))
    assert page.faults == []
    assert "There is no verdict yet" in page.text
    assert "The finals have not run" in page.sections["contenders"]
    assert "No strategy was predicted" in page.sections["predictions"]


@pytest.mark.thorough
def test_a_lucky_first_timing_is_not_the_best_so_far(tmp_path: Path) -> None:
    """A was timed at 100 ms and at 140 ms, B at 110 ms."""
    lucky, steady = [record for record in search_records() if record.purpose == "baseline" and record.outcome == "ok"][
        :2
    ]
    records = (
        replace(lucky, step_seconds=(0.1,) * 12),
        replace(steady, step_seconds=(0.11,) * 12),
        replace(lucky, step_seconds=(0.14,) * 12, purpose="remeasure", sequence=3, started_at=lucky.started_at + 1e3),
    )
    write_run(tmp_path / "runs" / "one", Story(records))
    run = read_run(tmp_path / "runs" / "one")
    assert run.winner_digest == run.best_baseline_digest == steady.strategy.digest
    said = " ".join(seen(write_report(run)).text.split())
    assert f"110.0 ms a step: the best so far, {steady.label}" in said


@pytest.mark.thorough
def test_records_of_another_cluster_are_counted_though_nothing_failed(tmp_path: Path) -> None:
    here, there = [record for record in search_records() if record.outcome == "ok"][:2]
    elsewhere = replace(CLUSTER, nodes=tuple(replace(node, cores=9.0) for node in CLUSTER.nodes))
    write_run(tmp_path / "runs" / "one", Story((here, replace(there, cluster=elsewhere))))
    said = seen(write_report(read_run(tmp_path / "runs" / "one"))).sections["failures"]
    assert "1 records of this run are from another cluster" in said
    assert "None: every trial was timed to its end." in said


def test_a_run_in_which_everything_failed_names_the_reasons(tmp_path: Path) -> None:
    records = tuple(
        replace(record, outcome="failed", reason=f"worker {at} broke", step_seconds=(), predicted_seconds=None)
        for at, record in enumerate(search_records()[:3])
    )
    write_run(tmp_path / "runs" / "one", Story(records))
    page = seen(write_report(read_run(tmp_path / "runs" / "one")))
    assert page.faults == []
    assert "No trial has succeeded." in page.text
    assert "worker 0 broke" in page.sections["failures"]
    assert "worker 1 broke" not in page.sections["failures"], "reasons that differ by a number share a line"


def test_a_run_whose_records_are_gone_is_told_by_its_result(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    directory = shutil.copytree(finished, tmp_path / "runs" / "one")
    document = json.loads((directory / "run.json").read_text())
    document["options"]["data"] = str(tmp_path / "gone")
    (directory / "run.json").write_text(json.dumps(document))
    page = seen(write_report(read_run(directory)))
    assert page.faults == []
    assert "as fast as" in page.text
    assert "all_reduce_25mb" in page.sections["contenders"]
    assert "Its records are not here" in page.sections["strategy"]


def test_a_report_may_be_written_elsewhere_and_then_leaves_no_files_in_the_run(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "one", Story(()))
    assert write_report(read_run(tmp_path / "runs" / "one"), tmp_path / "mine.html") == tmp_path / "mine.html"
    assert sorted(path.name for path in (tmp_path / "runs" / "one").iterdir()) == ["run.json"]
