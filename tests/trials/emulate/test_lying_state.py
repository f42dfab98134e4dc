"""A forged state file, or one that another user could have written, makes `down` end and remove nothing."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from autosync.commands.emulate import main
from autosync.errors import ClusterError
from tests.trials.emulate.clusters import needs_root, two_racks
from trials.emulate.isolation import start_in_pid_namespace
from trials.emulate.listed import cluster_mark
from trials.emulate.processes import Process
from trials.emulate.state import State, folder_of, read_state, remove_folder, write_state


@pytest.fixture
def folder(name: str) -> Path:
    folder = folder_of(name)
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """A process of this user that no cluster has started."""
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


def state_of(name: str, **changes: object) -> State:
    return replace(State(name, two_racks(), starts_ray=False), **changes)


def refused_by_down(name: str, capfd: pytest.CaptureFixture[str]) -> str:
    """Return the sentence with which `down` refuses."""
    assert main(["down", "--yes", "--name", name]) == 2
    said = capfd.readouterr()
    assert said.out == ""
    assert "Traceback" not in said.err
    return " ".join(said.err.split())


@needs_root
def test_a_process_that_was_not_started_for_the_cluster_lives_on(
    name: str, folder: Path, stranger: subprocess.Popen[bytes], capfd: pytest.CaptureFixture[str]
) -> None:
    """Its number, start and boot are right, as any user can read them; another cluster's mark does not help."""
    foreign = subprocess.Popen(["sleep", "600"], env=os.environ | cluster_mark(folder_of("other")))
    try:
        for process in (stranger, foreign):
            write_state(state_of(name, processes={"host0": Process.of(process.pid)}))
            assert f"lists process {process.pid}, which `up` of this version did not make" in refused_by_down(
                name, capfd
            )
            assert process.poll() is None
            assert (folder / "state.json").exists()
    finally:
        foreign.kill()
        foreign.wait()
    (folder / "state.json").unlink()


@needs_root
def test_a_process_of_the_cluster_is_ended(name: str, folder: Path) -> None:
    process = subprocess.Popen(["sleep", "600"], env=os.environ | cluster_mark(folder))
    write_state(state_of(name, processes={"host0": Process.of(process.pid)}))
    assert main(["down", "--name", name]) == 0
    process.returncode = -9  # `down` has ended it
    assert not Path(f"/proc/{process.pid}").exists()
    assert not folder.exists()


@needs_root
def test_a_process_that_is_ending_and_has_no_environment_left_is_no_strangers(name: str, folder: Path) -> None:
    """The first process of a host ends only when all others have been reaped; until then it has no memory."""
    init = start_in_pid_namespace(
        None, ["sleep", "600"], preexec_fn=lambda: None, env=os.environ | cluster_mark(folder)
    )
    space = Path(f"/proc/{init.pid}/ns/pid")
    inside = start_in_pid_namespace(space, ["sleep", "600"], preexec_fn=lambda: None)
    process = Process.of(init.pid)
    init.kill()
    deadline = time.monotonic() + 20
    while not Path(f"/proc/{init.pid}/statm").read_text().startswith("0 "):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert process.runs()
    write_state(state_of(name, processes={"host0": process}))
    assert read_state(name) is not None
    inside.wait()
    init.wait()


@needs_root
def test_a_process_in_the_middle_of_exec_is_no_stranger(name: str, folder: Path, tmp_path: Path) -> None:
    """The kernel gives the new program memory before it copies the environment there.

    A script that only executes itself has an empty environment in about 1 % of all readings.
    """
    script = tmp_path / "again.sh"
    script.write_text(f"#!/bin/sh\nexec {script}\n")
    script.chmod(0o700)
    process = subprocess.Popen([str(script)], env=os.environ | cluster_mark(folder))
    try:
        write_state(state_of(name, processes={"host0": Process.of(process.pid)}))
        deadline = time.monotonic() + 3
        while time.monotonic() < deadline:
            assert read_state(name) is not None
    finally:
        process.kill()
        process.wait()
    remove_folder(folder)


@needs_root
@pytest.mark.parametrize(
    "listed",
    [
        {"namespaces": ("victim",)},
        {"namespaces": ("as-{name}-0/../victim",)},
        {"namespaces": ("as-other-0",)},
        {"cgroups": ("{tmp}/autosync-{name}-0",)},
        {"cgroups": ("/sys/fs/cgroup/../../{tmp}/autosync-{name}-0",)},
        {"cgroups": ("/sys/fs/cgroup/victim",)},
        {"name": "other"},
    ],
    ids=str,
)
def test_parts_that_up_does_not_make_are_not_removed(
    name: str, folder: Path, listed: dict[str, object], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / f"autosync-{name}-0").mkdir()
    document = json.dumps(listed).replace("{name}", name).replace("{tmp}", str(tmp_path))
    (folder / "state.json").write_text(json.dumps(state_of(name).to_json() | json.loads(document)))
    assert "so nothing is ended or removed" in refused_by_down(name, capfd)
    assert (tmp_path / f"autosync-{name}-0").is_dir()
    (folder / "state.json").unlink()


@needs_root
def test_a_link_for_a_folder_is_not_followed(
    name: str, tmp_path: Path, stranger: subprocess.Popen[bytes], capfd: pytest.CaptureFixture[str]
) -> None:
    """Any user can make a link in /tmp to a folder of root in which everyone may write, such as /tmp itself."""
    lying = state_of(name, processes={"host0": Process.of(stranger.pid)})
    (tmp_path / "state.json").write_text(json.dumps(lying.to_json()))
    (tmp_path / "thesis.tex").touch()
    link = folder_of(name)
    link.symlink_to(tmp_path)
    try:
        assert "but is a link, which is not followed" in refused_by_down(name, capfd)
        assert main(["up", "--nodes", "1", "--no-ray", "--name", name]) == 2
        assert stranger.poll() is None
        assert sorted(path.name for path in tmp_path.iterdir()) == ["state.json", "thesis.tex"]
    finally:
        link.unlink()


def test_a_folder_that_others_can_write_is_not_trusted(name: str, folder: Path) -> None:
    write_state(state_of(name))
    for mode in (0o777, 0o770, 0o1777):
        folder.chmod(mode)
        with pytest.raises(ClusterError, match="can be written by other users"):
            read_state(name)
    folder.chmod(0o700)


@pytest.mark.skipif(os.geteuid() != 0, reason="Only root can give a folder to another user.")
def test_a_folder_of_another_user_is_not_trusted(name: str, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write_state(state_of(name))
    os.chown(folder, 12345, 12345)
    assert "is another user's, and is not trusted" in refused_by_down(name, capfd)
    os.chown(folder, 0, 0)
    os.chown(folder / "state.json", 12345, 12345)
    assert "it is another user" in refused_by_down(name, capfd)
    os.chown(folder / "state.json", 0, 0)


def _socket(file: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(file))


KINDS: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "folder": Path.mkdir,
    "socket": _socket,
    "link to a device": lambda file: file.symlink_to("/dev/zero"),
    "link to a file": lambda file: file.symlink_to("/etc/passwd"),
    "dangling link": lambda file: file.symlink_to("nowhere"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_that_is_no_regular_file_is_refused_at_once(name: str, folder: Path, kind: str) -> None:
    file = folder / "state.json"
    KINDS[kind](file)
    code = "import sys; from autosync.commands.emulate import main; sys.exit(main(sys.argv[1:]))"
    for command in ("down", "status"):
        done = subprocess.run(
            [sys.executable, "-c", code, command, "--name", name],
            capture_output=True, text=True, check=False, timeout=20,
        )  # fmt: skip
        assert done.returncode == 2, done
        sentence = " ".join(done.stderr.split())
        assert sentence.startswith("emulate: File ")
        assert "was not written by `up`" in sentence
        assert sentence.endswith("check it, and remove it by hand.")
    file.rmdir() if kind == "folder" else file.unlink()


def test_links_inside_are_removed_and_not_followed(name: str, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "thesis.tex").touch()
    (folder / "hosts").mkdir()
    for link in (folder / "home", folder / "hosts" / "0"):
        link.symlink_to(tmp_path / "inner")
    write_state(state_of(name))
    remove_folder(folder)
    assert not folder.exists()
    assert (tmp_path / "inner" / "thesis.tex").exists()
