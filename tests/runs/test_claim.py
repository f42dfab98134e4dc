"""A run's folder belongs to one command at a time."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from autosync.errors import AutosyncError
from autosync.runs.claim import LOCK, claim_folder

HOLD = """
import sys
from pathlib import Path
from autosync.runs.claim import claim_folder
with claim_folder(Path(sys.argv[1]), is_default=len(sys.argv) > 2) as folder:
    (folder / "run.json").write_text("{}")
    print(folder.name, flush=True)
    sys.stdin.read()
"""


def holding(folder: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HOLD, str(folder), *more]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_second_command_is_refused_and_told_which_process_has_the_folder(tmp_path: Path) -> None:
    with holding(tmp_path / "run") as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "run\n"
        for resume in (False, True):
            with pytest.raises(AutosyncError) as refusal, claim_folder(tmp_path / "run", resume=resume):
                pass
            told = f"--out {tmp_path / 'run'} is in use by another command (process {holder.pid} on "
            assert str(refusal.value).startswith(told)
            assert str(refusal.value).endswith("); wait until that command ends, or name another folder.")
        holder.communicate("")
    with claim_folder(tmp_path / "run") as folder:
        assert (folder / "run.json").exists()
    assert os.listdir(tmp_path / "run") == ["run.json"]


def test_a_killed_command_leaves_the_folder_free(tmp_path: Path) -> None:
    with holding(tmp_path / "run") as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        holder.kill()
    assert (tmp_path / "run" / LOCK).exists()
    with claim_folder(tmp_path / "run"):
        pass
    assert not (tmp_path / "run" / LOCK).exists()


def test_commands_of_the_same_second_have_folders_of_their_own(tmp_path: Path) -> None:
    with ExitStack() as stack:
        names = [
            stack.enter_context(claim_folder(tmp_path / "runs/mlp-20260101-000000", is_default=True)).name
            for _ in "abc"
        ]
    assert names == ["mlp-20260101-000000", "mlp-20260101-000000-2", "mlp-20260101-000000-3"]


def test_processes_that_begin_at_once_never_share_a_folder(tmp_path: Path) -> None:
    stem = tmp_path / "runs/mlp-20260101-000000"
    holders = [holding(stem, "default") for _ in range(4)]
    try:
        names = [holder.stdout.readline().strip() for holder in holders if holder.stdout]
    finally:
        for holder in holders:
            holder.communicate("")
    assert len(set(names)) == len(holders)


def test_of_many_claims_at_once_one_holds(tmp_path: Path) -> None:
    def attempt(_: int) -> bool:
        try:
            with claim_folder(tmp_path / "run") as folder:
                inside = folder / "inside"
                inside.touch(exist_ok=False)  # two processes at once would meet here
                inside.unlink()
                return True
        except AutosyncError:
            return False

    with ThreadPoolExecutor(8) as threads:
        assert any(threads.map(attempt, range(200)))


def test_an_empty_folder_goes_and_one_with_content_stays(tmp_path: Path) -> None:
    with claim_folder(tmp_path / "a/b/run"):
        pass
    assert os.listdir(tmp_path) == []
    (tmp_path / "mine").mkdir()
    with claim_folder(tmp_path / "mine"):
        pass
    with claim_folder(tmp_path / "a/run") as folder:
        (folder / "run.json").write_text("{}")
    assert {path.name for path in tmp_path.iterdir()} == {"mine", "a"}


def test_a_missing_run_is_not_made_to_be_resumed(tmp_path: Path) -> None:
    with claim_folder(tmp_path / "run", resume=True) as folder:
        assert folder == tmp_path / "run"
    assert os.listdir(tmp_path) == []


def test_a_name_that_cannot_be_made_is_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for out, why in ((tmp_path / "file", "File exists"), (tmp_path / "file/run", "Not a directory")):
        with pytest.raises(AutosyncError) as refusal, claim_folder(out):
            pass
        assert str(refusal.value) == f"--out {out} cannot be made: {why}; name another folder."
    with pytest.raises(AutosyncError, match="File name too long; name another"), claim_folder(tmp_path / ("x" * 300)):
        pass


@pytest.mark.parametrize("make", ["symlink_to", "hardlink_to", "fifo"])
def test_a_lock_file_that_is_another_file_is_refused(tmp_path: Path, make: str) -> None:
    lock = tmp_path / "run" / LOCK
    lock.parent.mkdir()
    (tmp_path / "precious").write_text("content")
    if make == "fifo":
        os.mkfifo(lock)
    else:
        getattr(lock, make)(tmp_path / "precious")
    with pytest.raises(AutosyncError, match="cannot be written"), claim_folder(tmp_path / "run"):
        pass
    assert (tmp_path / "precious").read_text() == "content"
