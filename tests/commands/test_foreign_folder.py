"""Commands that write into a folder made by a stranger leave every file outside the folder unchanged."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from autosync.commands import report, runs
from autosync.dataset import RecordStore
from autosync.dataset.results import ResultStore
from autosync.errors import WriteError
from autosync.runs.race_folder import RaceFolder
from autosync.train.job import TrainingDirectory
from autosync.tune.directory import RunDirectory
from autosync.tune.options import TuneOptions
from studies.collect.folder import Folder
from studies.evaluation.journal import Journal
from tests import cases
from tests.runs.examples import Story, search_records, write_finished_run, write_run

MINE = "what the user had"


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "outside"
    folder.mkdir()
    for name in ("file", "step_time.png", "0000.json"):
        (folder / name).write_text(MINE)
    return folder


def unchanged(outside: Path) -> bool:
    return {file.name: file.read_text() for file in outside.iterdir()} == dict.fromkeys(
        ("file", "step_time.png", "0000.json"), MINE
    )


def test_a_report_replaces_links_and_names_in_the_runs_folder(tmp_path: Path, outside: Path) -> None:
    write_finished_run(tmp_path / "run")
    assert report.main(["run"]) == 0
    written = [tmp_path / "run" / "report.html", *(tmp_path / "run" / "report").glob("*.png")]
    assert len(written) > 3
    for number, file in enumerate(written):
        file.unlink()
        if number % 2:
            os.link(outside / "file", file)
        else:
            file.symlink_to(outside / "file")
    (tmp_path / "run" / ".report.html").symlink_to(outside / "file")  # the temporary name of older versions
    assert report.main(["run"]) == 0
    assert unchanged(outside)
    assert not any(file.is_symlink() for file in written)


def test_a_linked_folder_of_pictures_is_refused(
    tmp_path: Path, outside: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(tmp_path / "run", Story(()), data=tmp_path / "data")
    (tmp_path / "run" / "report").symlink_to(outside)
    assert report.main(["run"]) == 2
    assert capsys.readouterr().err == (
        f"report: run/report is a link to '{outside}', which is not followed; remove the link.\n"
    )
    assert unchanged(outside)
    assert report.main(["run", "--out", "elsewhere.html"]) == 0


def test_a_run_folder_that_the_user_names_by_a_link_is_written_to(tmp_path: Path, outside: Path) -> None:
    write_run(tmp_path / "run", Story(()), data=tmp_path / "data")
    (tmp_path / "named").symlink_to("run")
    assert report.main(["named"]) == 0
    assert (tmp_path / "run" / "report.html").is_file()
    assert unchanged(outside)


def test_an_export_replaces_a_link(tmp_path: Path, outside: Path) -> None:
    write_finished_run(tmp_path / "run")
    (tmp_path / "out.csv").symlink_to(outside / "file")
    assert runs.main(["export", "run", "--out", "out.csv"]) == 0
    assert unchanged(outside)
    assert (tmp_path / "out.csv").read_text().count("\n") > 3


def test_an_export_to_a_device_leaves_the_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_finished_run(tmp_path / "run")
    assert runs.main(["export", str(tmp_path / "run"), "--out", "/dev/null"]) == 2
    assert "/dev/null cannot be written: it is a device" in capsys.readouterr().err
    assert Path("/dev/null").is_char_device()


def test_a_resumed_training_appends_to_its_own_file_alone(tmp_path: Path, outside: Path) -> None:
    directory = TrainingDirectory(tmp_path)
    for make in (Path.symlink_to, Path.hardlink_to):
        make(tmp_path / "loss.jsonl", outside / "file")
        with pytest.raises(WriteError, match=r"loss\.jsonl cannot be written: it .*; remove it\."):
            directory.add_line({"step": 1})
        (tmp_path / "loss.jsonl").unlink()
    directory.add_line({"step": 1})
    assert (tmp_path / "loss.jsonl").read_text() == '{"step": 1}\n'
    assert unchanged(outside)


def test_a_resumed_training_saves_into_its_own_folder_alone(tmp_path: Path, outside: Path) -> None:
    (tmp_path / "checkpoints").symlink_to(outside)
    with pytest.raises(WriteError, match="checkpoints is a link to"):
        TrainingDirectory(tmp_path).checkpoints(every=1)
    assert unchanged(outside)


def test_a_resumed_race_keeps_its_records_in_its_own_folder(tmp_path: Path, outside: Path) -> None:
    (tmp_path / "records").symlink_to(outside)
    with pytest.raises(WriteError, match="records is a link to"):
        RaceFolder.open(tmp_path, {}, resume=False)
    (tmp_path / "records").unlink()
    folder = RaceFolder.open(tmp_path, {}, resume=False)
    (tmp_path / "result.json").symlink_to(outside / "file")
    folder.write_result({"winner": None})
    assert unchanged(outside)


def test_results_of_an_evaluation_are_appended_and_cut_in_their_own_file_alone(tmp_path: Path, outside: Path) -> None:
    (outside / "file").write_text(MINE)  # no line end: a journal drops such a line
    for make in (Path.symlink_to, Path.hardlink_to):
        make(tmp_path / "results.jsonl", outside / "file")
        with pytest.raises(WriteError, match=r"results\.jsonl cannot be written"):
            Journal(tmp_path / "results.jsonl")
        (tmp_path / "results.jsonl").unlink()
    assert unchanged(outside)


def test_a_search_keeps_tunes_files_in_its_own_folder(tmp_path: Path, outside: Path) -> None:
    run = write_run(tmp_path / "run", Story(()), data=tmp_path / "data")
    options = TuneOptions.create(model="bert", out=run.path, data=tmp_path / "data", trials=40, resume=True)
    (tmp_path / "run" / "tune" / run.name).mkdir(parents=True)
    (tmp_path / "run" / "tune" / run.name / "tuner.pkl").symlink_to(outside / "file")
    with pytest.raises(WriteError, match=r"tuner\.pkl is a link"):
        RunDirectory.open(options)
    (tmp_path / "fresh").mkdir()
    (tmp_path / "fresh" / "tune").symlink_to(outside)
    with pytest.raises(WriteError, match="tune is a link"):
        RunDirectory.open(options.model_copy(update={"out": tmp_path / "fresh", "resume": False}))
    assert unchanged(outside)


def test_results_of_a_benchmark_and_records_of_a_collection_stay_in_their_folder(tmp_path: Path, outside: Path) -> None:
    (tmp_path / "live").symlink_to(outside)
    with pytest.raises(WriteError, match="live is a link to"):
        ResultStore.create(tmp_path / "live", ())
    (tmp_path / "records").symlink_to(outside)
    with pytest.raises(WriteError, match="records is a link to"), Folder(tmp_path).held():
        pass
    (tmp_path / "clusters").symlink_to(outside)
    with pytest.raises(WriteError, match="clusters is a link to"):
        Folder(tmp_path).write_cluster("file", cases.local_cluster(2), None)
    assert unchanged(outside)


def test_records_that_are_links_are_merged_into_files_and_their_targets_kept(tmp_path: Path, outside: Path) -> None:
    run = write_run(tmp_path / "run", Story(search_records()[:2]), data=tmp_path / "data")
    kept = tmp_path / "kept.parquet"
    (whole,) = (tmp_path / "data").glob("*.parquet")
    whole.rename(kept)
    before = kept.read_bytes()
    for name in ("a.parquet", "b.parquet", whole.name):
        (tmp_path / "data" / name).symlink_to(kept)
    (tmp_path / "data" / ".autosync-0.tmp").symlink_to(outside / "file")
    store = RecordStore.create(tmp_path / "data")
    store.compact(stale_seconds=-1e9)
    assert kept.read_bytes() == before
    assert unchanged(outside)
    assert len(store.read(run=run.name)) == 2
    assert not any(file.is_symlink() for file in (tmp_path / "data").glob("*.parquet"))
