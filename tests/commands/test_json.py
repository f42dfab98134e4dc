"""`--json` on commands that print one document, and on training: only JSON on stdout, with the documented fields."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from autosync.commands.explain import main as explain
from autosync.commands.runs import main as runs
from tests.architecture.source_tree import ROOT
from tests.commands.documented import names_in_row
from tests.runs.examples import Story, search_records, write_finished_run, write_run
from tests.runs.test_kinds import LINE, write_race, write_training

DOCUMENTS = "### Documents"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("place")
    write_race(folder / "runs" / "raced")
    write_training(folder / "runs" / "trained")
    write_finished_run(folder / "runs" / "searched")
    write_run(folder / "runs" / "begun", Story(search_records()[:3]))
    return folder


@pytest.fixture(autouse=True)
def _in_the_place(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    monkeypatch.setenv("COLUMNS", "60")  # no JSON is wrapped


def document(capsys: pytest.CaptureFixture[str], command: Any, *arguments: str) -> Any:
    assert command([*arguments, "--json"]) == 0
    printed = capsys.readouterr()
    assert printed.out.count("\n") == 1
    return json.loads(printed.out)


def test_a_list_has_a_document_for_each_run(capsys: pytest.CaptureFixture[str]) -> None:
    listed = {run["title"]: run for run in document(capsys, runs, "list")}
    assert listed.keys() == {"raced", "trained", "searched", "begun"}
    assert (listed["searched"]["kind"], listed["searched"]["state"]) == ("search", "finished")
    assert listed["searched"]["run"] == "runs/searched"
    assert listed["begun"]["speedup"] is None
    assert all(run.keys() == names_in_row(DOCUMENTS, "runs list") for run in listed.values())


def test_an_empty_folder_has_no_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert document(capsys, runs, "list", str(tmp_path)) == []
    assert runs(["list", str(tmp_path / "nowhere"), "--json"]) == 2
    assert capsys.readouterr().out == ""


def test_each_kind_of_run_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    search = document(capsys, runs, "show", "searched")
    assert search["result"] == json.loads(Path("runs/searched/result.json").read_text())
    assert search["contenders"][0]["strategy_digest"] == search["result"]["verdict"]["winner"]
    assert search["files"]["strategy"] == "runs/searched/strategy.json"
    begun = document(capsys, runs, "show", "begun")
    assert (begun["result"], begun["state"], len(begun["contenders"])) == (None, "unfinished", 3)
    race = document(capsys, runs, "show", "raced")
    assert race["result"] == json.loads(Path("runs/raced/result.json").read_text())
    training = document(capsys, runs, "show", "trained")
    assert training["lines"][-1] == LINE
    named = names_in_row(DOCUMENTS, "runs list") | names_in_row(DOCUMENTS, "runs show")
    for shown in (search, begun, race, training):
        assert shown.keys() <= named
    assert document(capsys, runs, "show") == document(capsys, runs, "show", "begun")  # the latest search


def test_an_explanation_states_links_terms_and_the_nearest_baseline(capsys: pytest.CaptureFixture[str]) -> None:
    assert explain(["runs/searched/strategy.json"]) == 0
    words = capsys.readouterr().out
    explained = document(capsys, explain, "runs/searched/strategy.json")
    named = names_in_row(DOCUMENTS, "explain")
    assert explained.keys() <= named
    for inner in (explained["links"][0], explained["step"], explained["nearest_baseline"]):
        assert inner.keys() <= named
    assert explained["nearest_baseline"]["label"] in words
    assert explained["strategy_digest"] in words.splitlines()[0]
    terms = [term["seconds"] for term in explained["step"]["terms"]]
    assert terms == sorted(terms, reverse=True)
    busiest = max(explained["links"], key=lambda link: link["seconds"])
    assert busiest["seconds"] == pytest.approx(busiest["bytes"] * 8e-9 / busiest["gbit_per_s"])


def test_a_refusal_leaves_stdout_empty(capsys: pytest.CaptureFixture[str]) -> None:
    assert explain(["nowhere.json", "--json"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("explain: ")


def test_a_reader_that_leaves_ends_the_command_quietly() -> None:
    line = f"{sys.executable} -m autosync runs list --json | true; exit ${{PIPESTATUS[0]}}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(["bash", "-c", line], env=environment, capture_output=True, text=True)
    assert done.returncode in (0, 141)
    assert done.stderr == ""
