"""The PyTorch path as a person runs it, in processes and Ray workers without TensorFlow."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from autosync.dataset import RecordStore
from tests.report.pages import seen
from tests.tune.jobs import Job, ended
from tests.without_tensorflow import path_without_tensorflow

MODEL = """
from importlib.util import find_spec

import torch
from torch import nn


def build():
    hidden = [name for name in ("tensorflow", "keras", "keras_hub") if find_spec(name)]
    assert not hidden, f"{hidden} can be imported"
    module = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 3))
    batch = torch.randn(8, 16), torch.randint(3, (8,))
    return module, nn.functional.cross_entropy, batch, torch.optim.SGD(module.parameters(), lr=0.1)
"""

TRAINING = """
import sys

import autosync
import autosync.torch
from mine import build

module, loss_of, (inputs, targets), optimizer = build()
autosync.torch.distribute(module, "runs/one/own.json")
for _ in range(3):
    optimizer.zero_grad()
    loss_of(module(inputs), targets).backward()
    optimizer.step()
# Ranks share a pipe, and torchrun has each string written by itself.
sys.stdout.write(f"trained {'tensorflow' in sys.modules} {'keras' in sys.modules}\\n")
"""

AFTERWARDS = """
import json, sys
from autosync.commands import main

for arguments in json.loads(sys.argv[1]):
    print("status", main(arguments))
"""

SMALL = ("--framework", "pytorch", "--model", "mine:build", "--workers", "2", "--warmup", "1")
SEARCH = ("--trials", "3", "--steps", "3", "--rounds", "1", "--no-probe", "--out", "runs/one", "--data", "data")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished search without TensorFlow."""
    folder = tmp_path_factory.mktemp("without")
    (folder / "mine.py").write_text(MODEL)
    (folder / "train.py").write_text(TRAINING)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", path_without_tensorflow())
        job = Job(folder, *SMALL, *SEARCH)
        try:
            ended(job, 0)
        finally:
            job.end()
    # The fastest strategy may be DDP's, which neither a local back end nor `distribute` carries out.
    strategies = [record.strategy for record in RecordStore(folder / "data").read()]
    own = next(strategy for strategy in strategies if strategy.ddp is None)
    (folder / "runs/one/own.json").write_text(json.dumps(own.to_json()))
    return folder


def run(folder: Path, *command: str) -> str:
    """Return the output of Python with the arguments `command`, in `folder` and without TensorFlow."""
    environment = os.environ | {"PYTHONPATH": path_without_tensorflow(), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_search_finds_a_strategy_and_its_records_name_pytorch(folder: Path) -> None:
    records = RecordStore(folder / "data").read()
    assert {record.outcome for record in records} == {"ok"}
    assert {record.framework for record in records} == {"pytorch"}
    assert all(record.versions["torch"] for record in records)
    assert not any({"tensorflow", "keras"} & set(record.versions) for record in records)
    assert seen(folder / "runs/one/report.html").faults == []


def test_its_run_is_reported_explained_exported_and_timed_again(folder: Path) -> None:
    strategy = "runs/one/strategy.json"
    commands = [
        ["report", "runs/one"],
        ["runs", "list"],
        ["runs", "show", "runs/one"],
        ["explain", strategy],
        ["explain", strategy, "--framework", "pytorch", "--model", "mine:build"],
        ["runs", "export", "runs/one"],
        ["trial", *SMALL, "--steps", "3", "--strategy", "runs/one/own.json", "--backend", "local"],
    ]
    printed = run(folder, "-c", AFTERWARDS, json.dumps(commands))
    assert printed.count("status 0\n") == len(commands), printed


def test_a_script_trains_with_its_strategy(folder: Path) -> None:
    printed = run(folder, "-m", "torch.distributed.run", "--nproc-per-node", "2", "train.py")
    assert printed.count("trained False False\n") == 2
