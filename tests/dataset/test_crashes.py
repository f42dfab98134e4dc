"""A process killed at any point loses no finished record and leaves nothing unreadable."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from autosync.dataset import RecordStore
from tests.dataset.examples import example_record

APPENDS = """
import sys
from pathlib import Path
from autosync.dataset import RecordStore
from tests.dataset.examples import example_record
store = RecordStore.create(Path(sys.argv[1]))
for index in range(100_000):
    store.append(example_record(index))
    print(index, flush=True)
"""

DIES_AT = """
import os, signal, sys
from pathlib import Path
from autosync.dataset import RecordStore
from tests.dataset.examples import example_record

fatal_call, action = int(sys.argv[2]), sys.argv[3]
calls = 0

def dying(function):
    def call(*arguments, **options):
        global calls
        calls += 1
        if calls == fatal_call:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **options)
    return call

store = RecordStore(Path(sys.argv[1]))
os.replace, os.fsync, os.unlink, Path.unlink = map(dying, (os.replace, os.fsync, os.unlink, Path.unlink))
if action == "compact":
    store.compact()
else:
    store.append(example_record(99))
"""


def dies_at(directory: Path, fatal_call: int, action: str) -> bool:
    """Run `action` in a process that is killed before its `fatal_call`-th file operation; return whether it got that
    far.
    """
    result = subprocess.run([sys.executable, "-c", DIES_AT, str(directory), str(fatal_call), action], check=False)
    assert result.returncode in (0, -signal.SIGKILL)
    return result.returncode != 0


@pytest.mark.parametrize("records", [1, 4, 9])
def test_a_process_killed_among_appends_keeps_every_finished_record(tmp_path: Path, records: int):
    process = subprocess.Popen([sys.executable, "-c", APPENDS, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for _ in range(records):
        process.stdout.readline()
    process.kill()
    finished = records + len(process.stdout.read().splitlines())
    process.wait()
    kept = RecordStore(tmp_path).read()
    assert kept == [example_record(index) for index in range(len(kept))]
    assert finished <= len(kept) <= finished + 1


def test_an_append_killed_at_any_file_operation_leaves_the_others_readable(tmp_path: Path):
    fatal_call = 0
    dies = True
    while dies:
        fatal_call += 1
        store = RecordStore.create(tmp_path / str(fatal_call))
        store.append(example_record(0))
        dies = dies_at(store.directory, fatal_call, "append")
        assert store.read() in ([example_record(0)], [example_record(0), example_record(99)])
        assert len(pd.read_parquet(store.directory)) == len(store.read())
    assert store.read() == [example_record(0), example_record(99)]
    assert fatal_call > 3


@pytest.mark.thorough
def test_a_compaction_killed_at_any_file_operation_neither_loses_nor_doubles_a_record(tmp_path: Path):
    records = [example_record(index) for index in range(3)]
    fatal_call = 0
    dies = True
    while dies:
        fatal_call += 1
        store = RecordStore.create(tmp_path / str(fatal_call))
        for record in records:
            store.append(record)
        dies = dies_at(store.directory, fatal_call, "compact")
        assert store.read() == records
        assert store.read_table().num_rows == 3
        assert set(pd.read_parquet(store.directory)["seed"]) == {0, 1, 2}
        store.compact(stale_seconds=-1.0)
        assert store.read() == records
        assert len(list(store.directory.iterdir())) == 1
    assert fatal_call > 6
