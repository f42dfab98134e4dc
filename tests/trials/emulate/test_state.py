"""The file that lists the parts to remove."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from autosync.errors import ClusterError
from tests.trials.emulate.clusters import two_racks
from trials.emulate.processes import Process, end_all
from trials.emulate.state import State, folder_of, lock_folder, read_state, remove_folder, write_state

SOME = State(
    "some",
    two_racks(),
    starts_ray=True,
    namespaces=("as-some-0",),
    cgroups=("/sys/fs/cgroup/autosync-some-0",),
    processes={"host0": Process(12, 345, "boot")},
    dashboard_url="http://127.0.0.1:1",
)


@pytest.fixture
def folder(name: str) -> Path:
    folder = folder_of(name)
    folder.mkdir()
    return folder


def test_a_state_is_read_as_it_was_written(name: str, folder: Path) -> None:
    state = replace(SOME, name=name, namespaces=(), cgroups=(), processes={})
    assert State.from_json(SOME.to_json()) == SOME
    write_state(state)
    assert read_state(name) == state
    remove_folder(folder)
    assert read_state(name) is None


def test_a_folder_that_a_crash_left_without_its_file_holds_nothing_to_remove(name: str, folder: Path) -> None:
    for file in (None, "state.json.new", ".autosync-0123.tmp"):
        if file:
            (folder / file).touch()
        state = read_state(name)
        assert state is not None
        assert (state.complete, state.namespaces, state.cgroups, state.processes) == (False, (), (), {})


def test_a_folder_of_someone_else_is_left_alone(name: str, folder: Path) -> None:
    (folder / "thesis.tex").touch()
    with pytest.raises(ClusterError, match="exists and holds no state file, so it is not ours; remove it by hand"):
        read_state(name)
    (folder / "thesis.tex").unlink()


@pytest.mark.parametrize(
    "text",
    ['{"name": "x"}', "[" * 100_000, '{"a": 1, "a": 2}', '{"processes": []}', "[1]", f'{{"{"x" * 9_999_999}": 1}}'],
    ids=len,
)
def test_a_file_that_up_did_not_write_is_refused(name: str, folder: Path, text: str) -> None:
    (folder / "state.json").write_text(text, encoding="utf-8")
    with pytest.raises(ClusterError, match="was not written by `up`"):
        read_state(name)
    (folder / "state.json").unlink()


def test_two_commands_do_not_work_on_one_cluster_at_once(folder: Path) -> None:
    with (
        lock_folder(folder),
        pytest.raises(ClusterError, match="Another command is making or removing"),
        lock_folder(folder),
    ):
        pass
    with lock_folder(folder):
        pass


@pytest.mark.parametrize("name", ["", "Net", "a/b", "..", "-x", "a" * 21])
def test_a_name_must_fit_a_path_and_an_interface(name: str) -> None:
    with pytest.raises(ClusterError, match="name is 1 to 20 of a-z, 0-9 and '-'"):
        folder_of(name)


def test_a_path_too_long_for_sockets_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/" + "deep/" * 8)
    with pytest.raises(ClusterError, match="Ray's sockets need a short path"):
        folder_of("net")


def test_only_the_very_process_is_killed_not_a_later_one_of_its_number() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    process = Process.of(child.pid)
    for impostor in (replace(process, start_ticks=process.start_ticks - 1), replace(process, boot="another")):
        assert not impostor.runs()
        assert end_all([impostor]) == []
    assert process.runs()
    assert child.poll() is None
    assert end_all([process]) == []
    assert not process.runs()
    child.returncode = -9  # `end_all` has ended it


def test_a_process_that_is_gone_is_none() -> None:
    child = subprocess.Popen(["true"])
    process = Process.of(child.pid)
    child.wait()
    assert not process.runs()
    with pytest.raises(ProcessLookupError):
        Process.of(child.pid)
