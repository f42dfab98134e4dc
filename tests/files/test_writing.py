"""Writes replace a file as a whole and follow no link. A failed write gives a sentence and leaves no file behind."""

import errno
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from autosync.errors import WriteError
from autosync.files import check_without_links, inner_folder, make_folder, replacing, writable_folder, write_atomically
from autosync.files.writing import unwritable


def test_a_link_is_replaced_and_its_target_kept(tmp_path):
    outside, file = tmp_path / "outside", tmp_path / "result.json"
    outside.write_text("mine")
    file.symlink_to(outside)

    write_atomically(file, "new")

    assert outside.read_text() == "mine"
    assert file.read_text() == "new"
    assert not file.is_symlink()


def test_a_dangling_link_creates_nothing_where_it_points(tmp_path):
    file = tmp_path / "result.json"
    file.symlink_to(tmp_path / "outside")
    write_atomically(file, "new")
    assert not (tmp_path / "outside").exists()
    assert file.read_text() == "new"


def test_another_name_of_the_old_file_keeps_the_old_content(tmp_path):
    outside, file = tmp_path / "outside", tmp_path / "result.json"
    outside.write_text("mine")
    os.link(outside, file)
    write_atomically(file, "new")
    assert (outside.read_text(), file.read_text()) == ("mine", "new")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_file_of_another_user_is_replaced_and_not_written_into(tmp_path):
    file = tmp_path / "result.json"
    file.write_text("theirs")
    os.chown(file, 12345, 12345)
    with file.open() as theirs:
        write_atomically(file, "new")
        assert theirs.read() == "theirs"
    assert file.stat().st_uid == os.geteuid()


def test_a_temporary_name_that_somebody_guessed_is_not_followed(tmp_path, monkeypatch):
    outside, file = tmp_path / "outside", tmp_path / "result.json"
    outside.write_text("mine")
    monkeypatch.setattr("secrets.token_hex", lambda _: "guessed")
    (tmp_path / ".autosync-guessed.tmp").symlink_to(outside)
    with pytest.raises(WriteError, match=r"result\.json cannot be written: File exists"):
        write_atomically(file, "new")
    assert outside.read_text() == "mine"
    assert not file.exists()


def test_writers_of_one_name_at_once_leave_one_whole_file(tmp_path):
    file = tmp_path / "result.json"
    contents = [str(number) * 200_000 for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda content: write_atomically(file, content), contents * 5))
    assert file.read_text() in contents
    assert os.listdir(tmp_path) == ["result.json"]


@pytest.mark.parametrize("there", ["pipe", "socket", "folder"])
def test_a_target_that_is_no_file_is_refused(tmp_path, there):
    file = tmp_path / "it"
    if there == "pipe":
        os.mkfifo(file)
    elif there == "folder":
        file.mkdir()
    else:
        os.mknod(file, stat.S_IFSOCK | 0o600)
    before = stat.S_IFMT(file.lstat().st_mode)
    with pytest.raises(WriteError, match=r"it cannot be written: .* name another place\."):
        write_atomically(file, "new")
    assert stat.S_IFMT(file.lstat().st_mode) == before
    assert os.listdir(tmp_path) == ["it"]


@pytest.mark.parametrize("device", ["/dev/null", "/dev/stdout"])
def test_the_systems_own_devices_are_never_replaced(device):
    before = os.lstat(device)
    with pytest.raises(WriteError, match=f"{device} cannot be written: "):
        write_atomically(Path(device), "new")
    assert os.lstat(device).st_ino == before.st_ino


def test_a_file_that_few_may_read_stays_one(tmp_path):
    file = tmp_path / "result.json"
    file.write_text("old")
    file.chmod(0o600)
    write_atomically(file, "new")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("umask", "mode", "expected"), [(0o022, 0o666, 0o644), (0o077, 0o666, 0o600), (0, 0o600, 0o600)]
)
def test_a_new_file_has_the_asked_mode_less_the_umask(tmp_path, umask, mode, expected):
    before = os.umask(umask)
    try:
        write_atomically(tmp_path / "new", "text", mode=mode)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == expected


def test_a_block_that_fails_keeps_the_old_file_and_leaves_nothing(tmp_path):
    file = tmp_path / "a.keras"
    file.write_text("old")

    def fails() -> None:
        with replacing(file, suffix=".keras") as stream:
            stream.write(b"half")
            assert Path(stream.name).parent == tmp_path
            assert stream.name.endswith(".keras")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert file.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.keras"]


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(WriteError, match=r"no/result.json cannot be written: No such file .*; make its folder first\."):
        write_atomically(tmp_path / "no" / "result.json", "text")


def test_a_name_that_is_too_long_is_said_to_be_and_the_longest_name_works(tmp_path):
    with pytest.raises(WriteError, match=r"File name too long; give a shorter name\."):
        write_atomically(tmp_path / ("a" * 256), "text")
    write_atomically(tmp_path / ("a" * 255), "text")
    assert os.listdir(tmp_path) == ["a" * 255]


def test_a_folder_that_may_only_be_read_is_said_to_be():
    with pytest.raises(WriteError, match=r"^/proc/self/x cannot be written: .*\.$"):
        write_atomically(Path("/proc/self/x"), "text")


def test_a_full_disk_keeps_the_old_file(tmp_path):
    file = tmp_path / "result.json"
    file.write_text("old")
    program = """
import resource, signal, sys
from pathlib import Path
from autosync.files import write_atomically
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))  # what is longer fails, as on a full disk
try:
    write_atomically(Path(sys.argv[1]), "x" * 9000, durable=True, afterwards="add --resume to go on")
except Exception as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program, str(file)], capture_output=True, text=True, check=True)
    assert done.stdout == f"{file} cannot be written: File too large; free the disk, and add --resume to go on.\n"
    assert file.read_text() == "old"
    assert os.listdir(tmp_path) == ["result.json"]


def test_the_sentence_names_cause_and_remedy():
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert str(unwritable("it", full)) == "it cannot be written: No space left on device; free the disk."


def test_a_linked_folder_inside_is_refused_and_one_that_was_named_is_followed(tmp_path):
    outside, run = tmp_path / "outside", tmp_path / "run"
    outside.mkdir()
    run.mkdir()
    (run / "report").symlink_to(outside)
    with pytest.raises(WriteError, match=r"report is a link to '.*outside', which is not followed; remove the"):
        inner_folder(run, "report")
    (run / "dangling").symlink_to(tmp_path / "nowhere")
    with pytest.raises(WriteError, match="is a link"):
        inner_folder(run, "dangling")
    assert not (tmp_path / "nowhere").exists()

    named = tmp_path / "named"
    named.symlink_to(run)
    assert inner_folder(named, "pictures").is_dir()
    assert (run / "pictures").is_dir()


def test_a_folder_that_cannot_be_made_is_said_so(tmp_path):
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "in"):
        with pytest.raises(WriteError, match=r"cannot be made: .*; name another\."):
            make_folder(place)


def test_a_folder_is_proved_to_be_writable_and_left_empty(tmp_path):
    assert os.listdir(writable_folder(tmp_path / "new" / "folder")) == []
    with pytest.raises(WriteError, match=r"^/proc/self cannot be written: .*; .*\.$"):
        writable_folder(Path("/proc/self"))


@pytest.mark.parametrize("kind", ["folder", "dangling", "file", "hard link", "pipe"])
def test_a_tree_that_a_library_will_write_into_has_no_way_out(tmp_path, kind):
    inside, outside = tmp_path / "tune" / "run", tmp_path / "outside"
    inside.mkdir(parents=True)
    outside.mkdir()
    (outside / "file").write_text("mine")
    (inside / "result.json").write_text("{}")
    check_without_links(tmp_path / "tune")
    check_without_links(tmp_path / "missing")
    way_out = inside / "tuner.pkl"
    if kind == "hard link":
        os.link(outside / "file", way_out)
    elif kind == "pipe":
        os.mkfifo(way_out)
    else:
        way_out.symlink_to({"folder": outside, "file": outside / "file", "dangling": tmp_path / "no"}[kind])
    with pytest.raises(WriteError, match=r"tuner\.pkl is a link or has a second name, .*; remove it\."):
        check_without_links(tmp_path / "tune")


def test_a_linked_tree_is_a_way_out_too(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "tune").symlink_to("outside")
    with pytest.raises(WriteError, match="tune is a link"):
        check_without_links(tmp_path / "tune")
