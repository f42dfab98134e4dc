"""Output that cannot be written unchanged: closed and full streams, readers that leave, other encodings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.source_tree import ROOT
from tests.runs.test_kinds import write_training

COMMAND = f"{sys.executable} -m autosync"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("place")
    write_training(folder / "runs" / "trained")
    write_training(folder / "runs" / "caf\N{LATIN SMALL LETTER E WITH ACUTE} \N{GREEK SMALL LETTER MU}")
    write_training(Path(os.fsdecode(os.fsencode(folder / "runs") + b"/half \xff")))
    return folder


def shell(line: str, place: Path, **variables: str) -> Any:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    environment.pop("COLUMNS", None)
    return subprocess.run(
        ["bash", "-c", line], cwd=place, env=environment, capture_output=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    ("line", "status", "said"),
    [
        ("{} runs list | true; exit ${{PIPESTATUS[0]}}", (0, 141), b""),
        ("{} runs list >&-", (0,), b""),
        ("{} runs show nowhere 2>&-", (2,), b""),
        ("{} runs list >/dev/full", (2,), b"No space left on device"),
        ("{} runs schema | head -c 10 >/dev/null; exit ${{PIPESTATUS[0]}}", (0, 1, 141), b""),
    ],
)
def test_a_stream_that_takes_nothing_is_no_traceback(
    place: Path, line: str, status: tuple[int, ...], said: bytes
) -> None:
    done = shell(line.format(COMMAND), place)
    assert done.returncode in status, done
    assert b"Traceback" not in done.stderr
    assert b"Exception ignored" not in done.stderr
    assert said in done.stderr
    assert done.stderr.count(b"\n") <= bool(said)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8", "cp1252"])
def test_any_encoding_can_print_any_name(place: Path, encoding: str) -> None:
    done = shell(f"{COMMAND} runs list", place, PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (0, b"")
    assert len(done.stdout.splitlines()) == 4
    assert b"half \\udcff" in done.stdout
    done = shell(f"{COMMAND} runs show $'no\\xffwhere\\e[31m'", place, PYTHONIOENCODING=encoding)
    assert done.returncode == 2
    assert b"no\\udcffwhere\\x1b[31m" in done.stderr


def test_a_bug_is_one_sentence_with_a_file_for_its_report(place: Path) -> None:
    code = (
        "import sys, autosync.commands.runs as runs\n"
        "runs.command.commands['list'].callback = lambda **_: 1 // 0\n"
        "sys.exit(runs.main(['list']))"
    )
    done = shell(f'{sys.executable} -c "{code}"', place, TMPDIR=str(place))
    assert done.returncode == 70
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith("runs: This is a bug of autosync, ZeroDivisionError: ")
    (file,) = place.glob("autosync-bug-*.txt")
    assert str(file) in line
    assert "Traceback" in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
