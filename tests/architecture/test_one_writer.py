"""Files are replaced in one place, which follows no link and shares no temporary name; exceptions state their
reason.
"""

from __future__ import annotations

import re

import pytest

from tests.architecture.source_tree import ROOT, modules, sources

WRITER = "autosync/files/writing.py"

MAY_WRITE = {
    "examples/torch_digits.py": "a script of a user, with plain PyTorch",
    "trials/signals.py": "the null device",
    "autosync/commands/shell.py": "a temporary file of an unused name, which mkstemp has opened",
    "autosync/dataset/files.py": "a new file of an unused name, whose time is the file system's",
    "autosync/engine/tensorflow/capture/captured.py": "an archive in memory",
    "trials/capture_in_subprocess.py": "its own temporary folder",
    "autosync/files/opening.py": "appends, to a regular file with one name alone",
    "autosync/runs/claim.py": "its own lock file, which is a regular file with one name alone",
    "autosync/simulator/streamed.py": "its own temporary folder",
    "studies/bench/replaying.py": "renames a folder of an unused name, which a link cannot redirect",
    "autosync/pretraining/workers.py": "its own temporary folder",
    "studies/literature/live.py": "its own temporary folder",
    "studies/proof/training.py": "its own temporary folder",
    "autosync/terminal.py": "the null device",
    "trials/emulate/as_root.py": "files of the kernel",
    "trials/emulate/changes.py": "the folder of an emulated cluster, which is its user's alone",
    "trials/emulate/isolation.py": "mount points of its own",
    "trials/emulate/lifecycle.py": "the folder of an emulated cluster, which is its user's alone",
    "trials/emulate/lifeline.py": "a pipe in the folder of an emulated cluster, which is its user's alone",
    "autosync/tune/remote_simulator.py": "a file of the kernel",
    "trials/emulate/quotas.py": "files of the kernel",
    "trials/emulate/ray_nodes.py": "the folder of an emulated cluster, which is its user's alone",
}

WRITTEN = re.compile(
    r"\bos\.(replace|rename)\(|\.write_(text|bytes)\(|\bopen\((.*, *)?\"([rwax]b?\+|[wax])|O_WRONLY|O_RDWR"
    r"|\.(rename|touch)\(|\bnew\.replace\(|\.savefig\((partial|folder|path|out)|np\.save[z]?\((folder|path|out)"
)


def test_nothing_but_the_writer_replaces_files():
    calls = {
        str(file)
        for file in [*sources(), *modules("examples")]
        if WRITTEN.search((ROOT / file).read_text(encoding="utf-8"))
    }
    assert WRITER in calls
    assert calls - {WRITER} <= set(MAY_WRITE), "write it with autosync.files.write_atomically, replacing or appended_to"
    assert set(MAY_WRITE) <= calls, "these no longer write: take them off the list"


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
