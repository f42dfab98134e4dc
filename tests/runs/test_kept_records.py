"""A run's own files lead to no records outside the places where the tuner and the user keep records."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from autosync.commands import explain, report, runs
from autosync.errors import AutosyncError
from autosync.runs import read_run
from autosync.runs.kept_records import KeptRecords, kept_records
from autosync.spec.address import Address
from tests.runs.examples import Story, search_records, write_finished_run, write_run


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # Two folders deep, because a run's records may lie two folders above: there, other tests leave theirs.
    folder = tmp_path / "home" / "work"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def stranger() -> Iterator[tuple[str, list[str]]]:
    """The address of a stranger's S3 store, and the signatures that the store received."""
    signatures: list[str] = []

    class Store(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            signatures.append(self.headers.get("Authorization", ""))
            self.send_error(404)

        do_HEAD = do_PUT = do_GET  # noqa: N815 - the library's names

        def log_message(self, *_: object) -> None:
            return

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Store)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    port = server.server_address[1]
    yield f"s3://bucket/records?endpoint_override=127.0.0.1:{port}&scheme=http&region=eu", signatures
    server.shutdown()
    thread.join()


def names_its_records_at(run: Path, place: str) -> None:
    document = json.loads((run / "run.json").read_text())
    document.setdefault("options", {})["data"] = place
    (run / "run.json").write_text(json.dumps(document))


def test_an_address_in_a_run_is_asked_only_if_the_user_names_it(
    work: Path,
    stranger: tuple[str, list[str]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    address, signatures = stranger
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "mine")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "also-mine")
    write_finished_run(work.parent / "foreign" / "a" / "run")
    (work.parent / "foreign" / "a" / "data").rename(work.parent / "hidden")
    run = work.parent / "foreign" / "a" / "run"
    names_its_records_at(run, address)
    asks = f"its records at {address}, outside its folder, which is not read unasked; pass --data '{address}'"

    assert report.main([str(run)]) == 0
    assert f"{run}: The run names {asks} to read them." in capsys.readouterr().out
    assert runs.main(["show", str(run)]) == 0
    assert asks in capsys.readouterr().out
    assert runs.main(["list", str(run.parent)]) == 0
    for arguments in (["export", str(run)], ["strategy", "ring", str(run)]):
        assert runs.main(arguments) == 2
        assert asks in capsys.readouterr().err
    assert explain.main([str(run / "strategy.json")]) == 2
    assert f"pass --result '{address}' to read them." in capsys.readouterr().err
    assert explain.main([str(run / "strategy.json"), "--result", str(run)]) == 2
    assert signatures == []

    assert runs.main(["export", str(run), "--data", address]) == 2
    assert any("mine" in signature for signature in signatures)


@pytest.mark.parametrize("place", ["/net/stranger/records", "../private", "//host/share"])
def test_a_path_that_leads_out_is_not_read_unasked(work: Path, place: str) -> None:
    run = write_run(work.parent / "foreign" / "a" / "run", Story(search_records()[:2]), data=work.parent / "private")
    named = str(work.parent / "private") if place == "../private" else place
    names_its_records_at(run.path, named)
    run_read = read_run(run.path)
    assert run_read.records == ()
    assert str(run_read.kept.elsewhere) == str(Path(named))
    assert len(read_run(run.path, work.parent / "private").records) == 2


def test_a_folder_of_records_that_links_out_of_the_run_is_not_read(work: Path) -> None:
    run = write_run(work.parent / "foreign" / "a" / "run", Story(search_records()[:2]), data=work.parent / "private")
    (run.path / "data").symlink_to(work.parent / "private")
    for place in (str(run.path / "data"), str(work.parent / "private"), "data"):
        names_its_records_at(run.path, place)
        assert read_run(run.path).records == ()


def test_working_inside_the_run_changes_nothing(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = write_run(work.parent / "foreign" / "a" / "run", Story(search_records()[:2]), data=work.parent / "private")
    (run.path / "data").symlink_to(work.parent / "private")
    names_its_records_at(run.path, "data")
    monkeypatch.chdir(run.path)
    assert read_run(Path()).records == ()


@pytest.mark.parametrize(
    ("data", "run"),
    [
        ("data", "runs/one"),
        ("records", "runs/one"),
        ("deep/records", "one"),
        ("../project/data", "../project/runs/one"),
        ("../project/data", "../project/one"),
        ("../project/one/data", "../project/one"),
    ],
)
def test_records_where_the_tuner_and_the_user_keep_them_are_read(work: Path, data: str, run: str) -> None:
    write_run(work / run, Story(search_records()[:2]), data=work / data)
    assert len(read_run(Path(run)).records) == 2


def test_the_users_own_link_to_records_is_followed(work: Path) -> None:
    (work.parent / "large disk").mkdir()
    (work / "data").symlink_to(work.parent / "large disk")
    write_run(work / "runs" / "one", Story(search_records()[:2]), data=work / "data")
    assert len(read_run(Path("runs/one")).records) == 2


def test_a_ring_of_links_holds_nothing(work: Path) -> None:
    (work / "data").symlink_to(work / "data")
    assert kept_records(work, {"options": {"data": str(work / "data")}}).place is None


@pytest.mark.parametrize(
    "place", ["a\0b", "/a\0b", "x" * 3000, "", ".", "~", "file:///etc", "FILE:///etc", "S3://b/x", "a//b"]
)
def test_any_text_in_place_of_records_is_read_or_named(work: Path, place: str) -> None:
    run = write_run(work / "runs" / "one", Story(search_records()[:2]), data=work / "data").path
    names_its_records_at(run, place)
    run_read = read_run(run)
    assert len(run_read.records) in (0, 2)
    assert run_read.kept.place is None or run_read.kept.place.is_dir()  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["../../outside", "/etc/cron.d/x", "..", ".", "a/b"])
def test_a_name_that_leads_out_of_the_run_is_refused(work: Path, name: str) -> None:
    run = write_run(work / "run", Story(()), data=work / "data")
    document = json.loads((run.path / "run.json").read_text())
    (run.path / "run.json").write_text(json.dumps(document | {"name": name}))
    with pytest.raises(AutosyncError, match="'name' must be a plain folder name, not"):
        read_run(run.path)


def test_the_command_line_can_be_pasted_into_a_shell() -> None:
    sentence = KeptRecords(None, Address("s3://b/x; rm -rf $HOME")).missing("--data")
    assert "pass --data 's3://b/x; rm -rf $HOME' to read them." in sentence
    assert KeptRecords().missing("--data") == ""
