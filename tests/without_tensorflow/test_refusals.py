"""Commands and functions for Keras models: without TensorFlow, each is refused by the sentence that names the extra."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from autosync.baselines import baselines_for
from autosync.spec import canonical_json
from tests.cases import local_cluster, mlp_model
from tests.without_tensorflow import REFUSAL, path_without_tensorflow

COMMANDS = """
import json, sys
from autosync.commands import main

for arguments in json.loads(sys.argv[1]):
    assert main(arguments) == 2
"""

FUNCTIONS = """
import autosync, autosync.train
from autosync.errors import ModelError
from trials.workers.processes import ClientProcess, WorkerProcess

for call in (
    lambda: autosync.distribute(None, None, None, "byteps"),
    lambda: autosync.train.use_logical_devices(2),
    lambda: WorkerProcess("tensorflow", "127.0.0.1", 1).address(),
    lambda: ClientProcess("tensorflow", ()).capture("mlp", 0),
    lambda: ClientProcess("tensorflow", ()).load(b""),
):
    try:
        call()
    except ModelError as error:
        print(error)
"""


def run(folder: Path, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": path_without_tensorflow()}
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_commands_for_keras_models_are_refused_before_anything_starts(tmp_path: Path) -> None:
    strategy = str(tmp_path / "strategy.json")
    written = baselines_for("tensorflow")["all_reduce_25mb"](mlp_model(), local_cluster(2))
    Path(strategy).write_text(canonical_json(written.to_json()))
    keras, own = ["--framework", "tensorflow"], ["--model", "mine:build"]
    (tmp_path / "mine.py").write_text("raise ValueError('imported')\n")
    commands = [
        ["tune", *keras, "--model", "bert"],
        ["tune", *keras, "--model", "bert", "--emulate", "2x100mbit", "--or-local"],
        ["tune", *keras, *own],
        ["trial", *keras, *own, "--strategy", strategy],
        ["race", *own, "--target", "loss=0.1"],
        ["train", *keras, *own, "--strategy", strategy, "--out", str(tmp_path / "trained")],
        ["explain", strategy, *keras, "--model", "mlp"],
        ["explain", strategy, *keras, *own],
    ]
    in_keras_alone = ["tune", "--framework", "pytorch", "--model", "teacher"]
    done = run(tmp_path, COMMANDS, json.dumps([*commands, in_keras_alone]))
    *refusals, unknown = done.stderr.splitlines()
    assert refusals == [f"{command[0]}: {REFUSAL}" for command in commands]
    assert unknown.startswith("tune: No model is called 'teacher' in PyTorch. Known: ")
    assert (done.returncode, done.stdout) == (0, "")
    assert not (tmp_path / "trained").exists()
    assert not (tmp_path / "runs").exists()


def test_functions_and_processes_for_keras_models_raise_the_sentence(tmp_path: Path) -> None:
    done = run(tmp_path, FUNCTIONS)
    assert done.stdout.splitlines() == [REFUSAL] * 5, done.stderr
