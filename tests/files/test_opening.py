"""Reading never blocks on any kind of file, and appending reaches the named file or none."""

import os
import stat

import pytest

from autosync.errors import WriteError
from autosync.files import open_to_append, open_to_read


@pytest.mark.timeout(20)
@pytest.mark.parametrize("links", [True, False])
def test_a_pipe_is_refused_at_once(tmp_path, links):
    os.mkfifo(tmp_path / "run.json")
    with pytest.raises(OSError, match="it is a pipe, not a regular file"):
        open_to_read(tmp_path / "run.json", through_links=links)


@pytest.mark.timeout(20)
def test_links_to_devices_and_pipes_are_refused_too(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for target, words in (("/dev/zero", "a device"), (tmp_path / "pipe", "a pipe"), (tmp_path, "Is a directory")):
        link = tmp_path / "link"
        link.symlink_to(target)
        with pytest.raises(OSError, match=words):
            open_to_read(link)
        link.unlink()


def test_a_socket_is_refused(tmp_path):
    os.mknod(tmp_path / "it", stat.S_IFSOCK | 0o600)
    with pytest.raises(OSError, match="it is a socket, not a regular file"):
        open_to_read(tmp_path / "it")


def test_a_link_is_followed_where_links_are_trusted_alone(tmp_path):
    (tmp_path / "file").write_text("content")
    (tmp_path / "link").symlink_to("file")
    with open_to_read(tmp_path / "link") as stream:
        assert stream.read() == b"content"
    with pytest.raises(OSError, match="it is a link, which is not followed here"):
        open_to_read(tmp_path / "link", through_links=False)


def test_a_missing_file_is_missing(tmp_path):
    with pytest.raises(FileNotFoundError):
        open_to_read(tmp_path / "no")


def test_lines_are_appended_and_the_file_made(tmp_path):
    for line in (b"a\n", b"b\n"):
        with open_to_append(tmp_path / "loss.jsonl") as stream:
            stream.write(line)
    assert (tmp_path / "loss.jsonl").read_bytes() == b"a\nb\n"


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", ["link", "dangling", "hard link", "pipe", "read pipe", "folder"])
def test_nothing_is_appended_elsewhere(tmp_path, kind):
    outside, file = tmp_path / "outside", tmp_path / "loss.jsonl"
    outside.write_text("mine")
    reader = None
    if kind == "link":
        file.symlink_to(outside)
    elif kind == "dangling":
        file.symlink_to(tmp_path / "nowhere")
    elif kind == "hard link":
        os.link(outside, file)
    elif kind == "folder":
        file.mkdir()
    else:
        os.mkfifo(file)
        reader = os.open(file, os.O_RDONLY | os.O_NONBLOCK) if kind == "read pipe" else None
    with pytest.raises(WriteError, match=r"loss\.jsonl cannot be written: .*; .*\."), open_to_append(file) as stream:
        stream.write(b"line\n")
    if reader is not None:
        os.close(reader)
    assert outside.read_text() == "mine"
    assert not (tmp_path / "nowhere").exists()
