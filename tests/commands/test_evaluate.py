"""The command: records in, report out, and one sentence for invalid arguments."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from autosync.dataset import RecordStore
from studies.commands.evaluate import main
from studies.evaluation import BUILDERS as KNOWN
from tests.architecture.source_tree import ROOT
from tests.studies.evaluation.made_up import BUILDERS, records, records_of


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    store = RecordStore.create(folder / "records")
    for record in records(80, 5):
        store.append(record)
    store.compact()
    return folder


def test_records_become_a_report_and_the_second_time_nothing_is_done_again(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--data", str(data), "--out", str(tmp_path), "--quick", "--only", "accuracy,speed"]
    assert main([*arguments, "--simulators", "guessing"], obj=BUILDERS) == 0
    assert "4 results are new." in capsys.readouterr().out
    assert main(arguments, obj=BUILDERS) == 0
    said = capsys.readouterr().out
    assert "4 results are new." in said  # the law's seconds, for each of two draws of records, and two of its speed
    assert str(tmp_path / "evaluation.md") in said
    assert main(arguments, obj=BUILDERS) == 0
    assert "0 results are new." in capsys.readouterr().out
    page = (tmp_path / "evaluation.md").read_text()
    assert "| knowing |" in page
    assert "| guessing |" in page


def test_by_default_the_report_lies_beside_the_records(data: Path) -> None:
    assert main(["--data", str(data), "--quick", "--only", "speed", "--simulators", "guessing"], obj=BUILDERS) == 0
    assert (data / "evaluation" / "evaluation.md").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--simulators", "linear,oracle"], "--simulators needs names among {known}, but has 'oracle'."),
        (["--only", "everything"], "--only needs names among accuracy, unseen-cluster, unseen-model, unseen-both, "),
        (["--seeds", "0"], "Invalid value for '--seeds': 0 is not in the range x>=1."),
        (["--data", "{tmp}/none"], "--data needs a folder of records, but there is no folder {tmp}/none."),
        (["--data", "{tmp}/empty"], "{tmp}/empty has no record; collect some first."),
        (["--data", "{data}", "--out", "{tmp}/taken"], "{tmp}/taken cannot be made: File exists; name another."),
    ],
)
def test_what_is_asked_wrongly_is_one_sentence(
    arguments: list[str], sentence: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "taken").write_text("a file")
    values = {"tmp": tmp_path, "data": data, "known": ", ".join(KNOWN)}
    assert main([argument.format(**values) for argument in arguments]) == 2
    said = capsys.readouterr().err
    assert said.startswith("evaluate: ")
    assert sentence.format(**values) in said
    assert len(said.splitlines()) == 1


def test_cells_too_small_are_said_and_passed_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = RecordStore.create(tmp_path / "records")
    for record in [*records_of("mlp", "three", 70, 0), *records_of("mlp", "four", 5, 0)]:
        store.append(record)
    arguments = ["--data", str(tmp_path), "--quick", "--only", "accuracy", "--simulators", "guessing"]
    assert main(arguments, obj=BUILDERS) == 0
    said = capsys.readouterr().out
    assert "Skipped: mlp@four has " in said
    assert "Skipped: Unseen clusters need records of two clusters or more, but all are of three." in said


@pytest.mark.thorough
def test_it_runs_as_a_module() -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "studies", "evaluate", "--simulators", "oracle"],
        env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == f"evaluate: --simulators needs names among {', '.join(KNOWN)}, but has 'oracle'.\n"
