"""The command: the report of one run, a comparison of several, and refusals."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from autosync.commands.report import main
from tests.report.pages import seen
from tests.runs.examples import Story, search_records, write_finished_run, write_run


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the finished runs `one` and `two`, of one model on one cluster, and `begun`, which has only
    begun.
    """
    folder = tmp_path_factory.mktemp("place")
    write_finished_run(folder / "runs" / "one")
    shutil.copytree(folder / "runs" / "one", folder / "runs" / "two")
    write_run(folder / "runs" / "begun", Story(()), data=folder / "runs" / "data")
    return folder


@pytest.fixture(autouse=True)
def _in_the_place(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    assert main(list(map(str, arguments))) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("report: ")
    assert captured.err.count("\n") == 1
    return captured.err.removeprefix("report: ").strip()


def test_one_run_has_its_report_written_again(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["begun"]) == 0
    assert capsys.readouterr().out == "Report: runs/begun/report.html\n"
    assert "No trial has ended yet." in seen(place / "runs" / "begun" / "report.html").text
    assert main(["runs/begun", "--out", "again.html"]) == 0
    assert (place / "again.html").read_text() == (place / "runs" / "begun" / "report.html").read_text()


def test_a_run_without_its_records_has_a_report_that_says_so(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "empty").mkdir()
    assert main(["one", "--data", "empty", "--out", "bare.html"]) == 0
    said = capsys.readouterr().out
    assert re.search(r"None of the \d+ trials of runs/one is in empty; name their place with --data\.", said)
    assert "unknown, because the records are no longer in their place" in seen(place / "bare.html").text


def test_runs_of_one_cell_are_compared_by_their_step_times(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs/one", "runs/two"]) == 0
    said = capsys.readouterr().out
    assert "not comparable" not in said
    assert said.splitlines()[0].split() == [
        "run", "model", "nodes", "trials", "took", "returned", "step", "speed-up", "95", "%", "interval",
    ]  # fmt: skip
    assert "Comparison: comparison.html" in said
    page = seen(place / "comparison.html")
    assert page.faults == []
    assert "All runs have one model and one cluster." in page.text
    assert page.tags["figure"] == 3
    assert {"one", "two"} <= set(page.sections["winners"].split())


@pytest.mark.thorough
def test_runs_of_different_cells_are_put_side_by_side_and_said_to_differ(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    second = place / "runs" / "other"
    shutil.copytree(place / "runs" / "one", second)
    text = (second / "run.json").read_text()
    (second / "run.json").write_text(text.replace('"model_digest": "', '"model_digest": "0'))
    assert main(["one", "other", "--out", "apart.html"]) == 0
    assert "These runs have different models, so their step times are not comparable." in capsys.readouterr().out
    page = seen(place / "apart.html")
    assert page.faults == []
    assert "step times are not comparable, but speed-ups within each run are" in page.text
    assert "Below 1, the best so far is faster" in page.sections["curves"]
    shutil.rmtree(second)


def test_runs_whose_links_were_measured_differently_are_said_to_be(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    second = place / "runs" / "other"
    shutil.copytree(place / "runs" / "one", second)
    document = json.loads((second / "run.json").read_text())
    for link in document["cluster"]["links"]:
        link["gbit_per_s"]["value"] /= 2
    (second / "run.json").write_text(json.dumps(document))
    assert main(["one", "other", "--out", "apart.html"]) == 0
    assert "have different measured link rates, so their step times are not comparable" in capsys.readouterr().out
    shutil.rmtree(second)


def judged_anew(directory: Path, **changed: object) -> None:
    result = json.loads((directory / "result.json").read_text())
    result["verdict"] |= changed
    (directory / "result.json").write_text(json.dumps(result))


def test_a_baseline_that_is_returned_is_not_given_the_speed_up_of_what_was_found(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    foreign = place / "runs" / "other"
    shutil.copytree(place / "runs" / "one", foreign)
    verdict = json.loads((foreign / "result.json").read_text())["verdict"]
    lost = {"winner": verdict["baseline"], "speedup": 0.77, "speedup_interval": [0.68, 0.88], "beyond_noise": False}
    judged_anew(foreign, **lost)
    assert main(["one", "other", "--out", "both.html"]) == 0
    first, second = capsys.readouterr().out.splitlines()[1:3]
    assert re.search(r"guided .* ms +1\.\d\d . +1\.\d\d - 1\.\d\d", first)
    assert re.search(r"other .* ms +1\.00 . *$", second)
    assert "0.77" not in seen(place / "both.html").sections["winners"]
    assert seen(place / "both.html").tags["figure"] == 3
    judged_anew(foreign, candidate=None, speedup=1.0, speedup_interval=[1.0, 1.0])
    assert main(["other", "begun", "--out", "none.html"]) == 0
    assert re.search(r"other .* ms +1\.00 . *$", capsys.readouterr().out.splitlines()[1])
    assert "Speed-up over the best baseline in each run" not in seen(place / "none.html").text
    shutil.rmtree(foreign)


def test_before_the_finals_the_best_so_far_is_compared(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ordered = sorted(
        (record for record in search_records() if record.outcome == "ok"),
        key=lambda record: record.median_seconds,
    )
    best, baseline = ordered[0], next(record for record in ordered if record.purpose == "baseline")
    write_run(place / "runs" / "early", Story((baseline, best)), data=place / "runs" / "early data")
    assert main(["one", "early", "--out", "early.html"]) == 0
    line = capsys.readouterr().out.splitlines()[2]
    assert f"guided {best.strategy.digest[:8]}" in line
    assert f"{best.median_seconds * 1e3:.1f} ms" in line
    shutil.rmtree(place / "runs" / "early")


def test_a_run_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys, "nowhere") == (
        "A run is a directory with a run.json, but there is none at nowhere or runs/nowhere; "
        "list the existing runs with `autosync runs list`."
    )


def test_records_that_are_none_are_refused(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys, "one", "--data", place / "missing").startswith(
        f"No records can be read from {place}/missing"
    )


def test_a_page_that_cannot_be_written_is_refused(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "a file").write_text("")
    assert refused(capsys, "begun", "--out", place / "a file" / "page.html") == (
        f"{place}/a file cannot be made: File exists; name another."
    )


def test_a_broken_file_of_a_run_is_named(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = place / "runs" / "broken"
    broken.mkdir(exist_ok=True)
    (broken / "run.json").write_text("{")
    assert refused(capsys, "broken").startswith("runs/broken/run.json must be JSON, but")
    (broken / "run.json").write_text('{"name": "x"}')
    assert refused(capsys, "broken") == (
        "runs/broken/run.json needs the field 'model_digest'; name a run of autosync.tune."
    )
    shutil.rmtree(broken)


def test_without_a_run_the_command_says_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert "Missing argument" in refused(capsys)


def test_the_command_loads_no_heavy_framework_but_what_reads_records(place: Path) -> None:
    script = (
        "import sys\nfrom autosync.commands.report import main\nmain(['begun', '--out', 'light.html'])\n"
        "print(*sorted({'tensorflow', 'torch', 'ray'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=place,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == ""
