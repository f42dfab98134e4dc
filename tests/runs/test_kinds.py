"""`autosync runs` lists searches, races and training runs, and says why a damaged run cannot be read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autosync.commands.report import main as report
from autosync.commands.runs import main
from autosync.race.job import end_race
from autosync.race.options import RaceOptions
from autosync.runs.race_folder import RaceFolder
from autosync.spec import Strategy
from tests.race.runs import CLUSTER, SETTING, TARGET, new_race, run_of
from tests.runs.examples import write_finished_run

LINE = {"step": 20, "loss": 1.25, "examples_per_second": 100.0, "step_seconds": 0.0123}


def write_race(directory: Path) -> None:
    """A finished race of two candidates."""
    options = RaceOptions("mlp", TARGET, directory)
    folder = RaceFolder.open(directory, options.identity(), resume=False)
    folder.write_asked(options.identity(), {"base": SETTING.base.to_json(), "ran_on": {}}, CLUSTER)
    race = new_race(seeds=2, runs=4)
    while (planned := race.next()) is not None:
        race.note(run_of(planned, 100, 0.1))
        folder.append(list(race.done.values())[-1])
    assert end_race(folder, race, "real", lambda _line: None) == 0


def write_training(directory: Path) -> None:
    (directory / "checkpoints").mkdir(parents=True)
    (directory / "run.json").write_text(json.dumps({"model": "bert", "strategy": SETTING.base.digest}))
    lines = [json.dumps({**LINE, "step": step}) for step in (1, 10, 20)]
    (directory / "loss.jsonl").write_text("\n".join([*lines, '{"step": 3']))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("place")
    write_race(folder / "runs" / "raced")
    write_training(folder / "runs" / "trained")
    write_finished_run(folder / "runs" / "searched")
    return folder


@pytest.fixture(autouse=True)
def _in_the_place(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    monkeypatch.delenv("COLUMNS", raising=False)


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments)) == 0
    return capsys.readouterr().out


def test_all_three_kinds_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    rows = {line.split()[0]: line.split() for line in said(capsys, "list").splitlines()[1:]}
    assert rows["searched"][-2:] == ["search", "finished"]
    assert rows["raced"][1:4] == ["mlp", "4", "4"]
    assert rows["raced"][-2:] == ["race", "finished"]
    assert rows["trained"][1] == "bert"
    assert rows["trained"][-3:] == ["training", "step", "20"]
    assert "12.3 ms" in " ".join(rows["trained"])


def test_all_three_kinds_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    raced = said(capsys, "show", "raced")
    assert raced.startswith("Race raced: mlp on 4 nodes, 4 runs.")
    assert "plain training" in raced
    assert "Strategy: runs/raced/strategy.json" in raced
    trained = said(capsys, "show", "trained")
    assert trained.startswith("Training trained: bert, step 20, loss 1.2500, 12.3 ms a step.")
    assert SETTING.base.digest in trained
    assert "Checkpoints: runs/trained/checkpoints" in trained


def test_the_latest_run_is_the_latest_search(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "show").startswith("Run searched")
    assert said(capsys, "best", "raced") == "runs/raced/strategy.json\n"
    assert Strategy.from_json(json.loads(said(capsys, "best", "raced", "--json")))


@pytest.mark.parametrize("arguments", [("export", "trained"), ("best", "trained"), ("export", "raced")])
def test_a_command_for_searches_says_which_kind_a_run_is(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(list(arguments)) == 2
    kind = "race" if arguments[1] == "raced" else "training"
    (line,) = capsys.readouterr().err.splitlines()
    assert f"runs/{arguments[1]} holds a {kind} run, but this command is for a search" in line


def test_a_report_of_a_race_is_found_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert report(["raced"]) == 0
    assert capsys.readouterr().out == "Report: runs/raced/report.html\n"
