"""Files are replaced in one place, which follows no link and shares no temporary name; the exceptions say why."""

from __future__ import annotations

import re

import pytest

from tests.architecture.source_tree import ROOT

WRITER = "autosync/files/writing.py"

MAY_WRITE = {
    "trials/signals.py": "the null device",
    "autosync/commands/shell.py": "a temporary file of an unused name, which mkstemp has opened",
    "autosync/dataset/files.py": "a new file of an unused name, whose time is the file system's",
    "autosync/engine/capture/captured.py": "an archive in memory",
    "autosync/engine/capture_apart.py": "its own temporary folder",
    "autosync/files/opening.py": "appends, to a regular file with one name alone",
    "autosync/runs/claim.py": "its own lock file, which is a regular file with one name alone",
    "autosync/simulator/streamed.py": "its own temporary folder",
    "autosync/studies/bench/replaying.py": "renames a folder of an unused name, which a link cannot redirect",
    "autosync/studies/evaluation/workers.py": "its own temporary folder",
    "autosync/studies/literature/live.py": "its own temporary folder",
    "autosync/terminal.py": "the null device",
    "trials/emulate/as_root.py": "files of the kernel",
    "trials/emulate/changes.py": "the folder of an emulated cluster, which is its user's alone",
    "trials/emulate/isolation.py": "mount points of its own",
    "trials/emulate/lifecycle.py": "the folder of an emulated cluster, which is its user's alone",
    "trials/emulate/lifeline.py": "a pipe in the folder of an emulated cluster, which is its user's alone",
    "trials/emulate/quotas.py": "files of the kernel",
    "trials/emulate/ray_nodes.py": "the folder of an emulated cluster, which is its user's alone",
}

WRITTEN = re.compile(
    r"\bos\.(replace|rename)\(|\.write_(text|bytes)\(|\bopen\((.*, *)?\"([rwax]b?\+|[wax])|O_WRONLY|O_RDWR"
    r"|\.(rename|touch)\(|\bnew\.replace\(|\.savefig\((partial|folder|path|out)|np\.save[z]?\((folder|path|out)"
)


def test_nothing_but_the_writer_replaces_files():
    found = {
        str(file.relative_to(ROOT))
        for package in ("autosync", "trials", "search_spaces", "examples")
        for file in (ROOT / package).rglob("*.py")
        if WRITTEN.search(file.read_text(encoding="utf-8"))
    }
    assert WRITER in found
    assert found - {WRITER} <= set(MAY_WRITE), "write it with autosync.files.write_atomically, replacing or appended_to"
    assert set(MAY_WRITE) <= found, "these no longer write: take them off the list"


@pytest.mark.parametrize(
    "line",
    [
        "os.replace(partial, path)",
        "path.write_text(text)",
        'path.open("a", encoding="utf-8")',
        'path.open("wb")',
        'open(path, "w")',
        'open(path, "r+b")',
        "path.touch()",
        "figure.savefig(folder / name)",
    ],
)
def test_a_writer_elsewhere_would_be_noticed(line):
    assert WRITTEN.search(line)


def test_readers_are_not_taken_for_writers():
    for line in ('path.open("rb")', "path.open()", 'text.replace("a", "b")', "dataclasses.replace(it, name=1)"):
        assert not WRITTEN.search(line)
