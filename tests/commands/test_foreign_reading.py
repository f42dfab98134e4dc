"""Commands that read a stranger's folder end quickly for files of any kind, and read nothing outside the folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from autosync.commands import report, runs
from autosync.dataset.parquet import read_table
from autosync.errors import AutosyncError, TrainingError
from autosync.runs.race_folder import RaceFolder
from autosync.simulator.saved import read_checkpoint
from autosync.spec import read_device_profile
from autosync.train.checkpoint import read_extras
from autosync.train.checkpoint_folder import Checkpoints
from autosync.train.job import TrainingDirectory
from studies.collect.folder import Folder
from studies.evaluation.journal import Journal
from tests.runs.examples import Story, search_records, write_run
from trials.cluster.file import read_cluster_file
from trials.opening import read_strategy_file

pytestmark = pytest.mark.timeout(60)

DOCUMENTS = ("result.json", "search.json", "probe.json", "strategy.json")


def becomes_pipe(file: Path) -> None:
    os.mkfifo(file)


def becomes_device(file: Path) -> None:
    file.symlink_to("/dev/zero")


def becomes_link(file: Path) -> None:
    outside = file.parent.parent / "outside.json"
    outside.write_text('{"secret": "of the user"}')
    file.symlink_to(outside)


def becomes_folder(file: Path) -> None:
    file.mkdir()


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return write_run(tmp_path / "run", Story(search_records()[:2]), data=tmp_path / "data").path


@pytest.mark.parametrize("name", DOCUMENTS)
@pytest.mark.parametrize("becomes", [becomes_pipe, becomes_device, becomes_link, becomes_folder])
def test_a_document_of_a_run_that_is_no_file_of_its_own_is_one_sentence(
    run: Path, name: str, becomes: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    becomes(run / name)
    assert report.main(["run"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"report: run/{name} cannot be read: ")
    assert error.count("\n") == 1
    assert "secret" not in error
    assert runs.main(["list", "."]) == 0
    assert "secret" not in capsys.readouterr().out


@pytest.mark.parametrize("becomes", [becomes_pipe, becomes_device, becomes_link, becomes_folder])
def test_a_run_whose_run_json_is_none_is_refused(
    run: Path, becomes: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    (run / "run.json").unlink()
    becomes(run / "run.json")
    for command in (report.main, lambda arguments: runs.main(["show", *arguments])):
        assert command(["run"]) == 2
        assert "secret" not in capsys.readouterr().err


@pytest.mark.parametrize("becomes", [becomes_pipe, becomes_device, becomes_link])
def test_a_races_documents_and_records_are_its_own_files(tmp_path: Path, becomes: Callable[[Path], None]) -> None:
    race = tmp_path / "race"
    (race / "records").mkdir(parents=True)
    becomes(race / "race.json")
    with pytest.raises(AutosyncError, match=r"race\.json cannot be read: it is "):
        RaceFolder(race).asked()
    becomes(race / "records" / "0000.json")
    with pytest.raises(AutosyncError, match=r"A record of .*race cannot be read: it is .*; remove it\."):
        RaceFolder(race).records()


def test_a_races_records_are_not_read_through_a_linked_folder(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "race").mkdir()
    (tmp_path / "race" / "records").symlink_to(tmp_path / "outside")
    with pytest.raises(AutosyncError, match="records is a link to"):
        RaceFolder(tmp_path / "race").records()


@pytest.mark.parametrize("becomes", [becomes_pipe, becomes_device, becomes_link])
def test_training_resumes_from_its_own_files(tmp_path: Path, becomes: Callable[[Path], None]) -> None:
    becomes(tmp_path / "run.json")
    with pytest.raises(TrainingError, match=r"run\.json cannot be read: it is "):
        TrainingDirectory.open(tmp_path, "mlp", search_records()[0].strategy, resume=True)


def test_training_resumes_from_no_link(tmp_path: Path) -> None:
    (tmp_path / "outside.keras").write_text("")
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    (folder / "step-00000009.keras").symlink_to(tmp_path / "outside.keras")
    with pytest.raises(TrainingError, match=r"step-00000009\.keras is a link; remove it\."):
        Checkpoints(folder, every=1).latest()
    (folder / "step-00000009.keras").unlink()
    (folder / "step-00000003.keras").write_text("")
    (tmp_path / "linked").symlink_to(folder)  # a folder that the user's own program names
    assert Checkpoints(tmp_path / "linked", every=1).latest() == tmp_path / "linked" / "step-00000003.keras"


def read_cluster(file: Path) -> object:
    (file.parent / "clusters").mkdir()
    file.rename(file.parent / "clusters" / "it.json")
    return Folder(file.parent).read_cluster("it")


def read_simulator(file: Path) -> object:
    (file.parent / "simulator").mkdir()
    (file.parent / "simulator" / "simulator.json").write_text("{}")
    file.rename(file.parent / "simulator" / "simulator.safetensors")
    return read_checkpoint(file.parent / "simulator")


@pytest.mark.parametrize("becomes", [becomes_pipe, becomes_device])
@pytest.mark.parametrize(
    "read",
    [
        read_cluster_file,
        read_strategy_file,
        read_device_profile,
        read_extras,
        read_cluster,
        read_simulator,
        Journal,
        lambda file: read_table(file, lambda schema: schema),
    ],
)
def test_every_reader_refuses_a_pipe_and_a_device_at_once(
    tmp_path: Path, read: Callable[[Path], object], becomes: Callable[[Path], None]
) -> None:
    becomes(tmp_path / "file")
    with pytest.raises(AutosyncError, match=r"it is (a pipe|a device|a link)"):
        read(tmp_path / "file")


def test_a_folder_of_records_with_a_pipe_is_refused_at_once(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(run.parent / "data" / "pipe.parquet")
    assert report.main(["run"]) == 2
    assert "must hold only Parquet files, but" in capsys.readouterr().err


@pytest.mark.parametrize("becomes", [becomes_pipe, becomes_device, becomes_link])
def test_the_lines_of_a_training_are_read_from_its_own_file(
    tmp_path: Path, becomes: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "trained").mkdir()
    (tmp_path / "trained" / "run.json").write_text('{"model": "mlp", "strategy": "ab"}')
    becomes(tmp_path / "trained" / "loss.jsonl")
    assert runs.main(["show", str(tmp_path / "trained")]) == 2
    error = capsys.readouterr().err
    assert "loss.jsonl cannot be read: it is " in error
    assert "secret" not in error
