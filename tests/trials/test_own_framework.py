"""The framework follows from the value that a user's function returns, and the function is called once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from autosync.engine.core.contract import Engine
from autosync.engine.core.registry import engine_named
from autosync.errors import ModelError
from autosync.spec import RuntimeRecord
from autosync.zoo import framework_by_name
from trials.capture_in_subprocess import capture_in_subprocess, try_in_subprocess

MODULE = """
import pathlib
{imports}


def note():
    with pathlib.Path("calls").open("a") as file:
        file.write("x")

{functions}
"""

IN_TORCH = """
def module():
    note()
    model = torch.nn.Linear(3, 1)
    batch = torch.ones(4, 3), torch.ones(4, 1)
    return model, torch.nn.functional.mse_loss, batch, torch.optim.SGD(model.parameters(), lr=0.1)


def number():
    return 3, "mse", (1, 2)
"""

IN_KERAS = """
def model():
    note()
    return keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)]), "mse", (np.ones((4, 3)), np.ones((4, 1)))
"""

KERAS_ON_TORCH = """
def model():
    layers = [keras.Input((3,)), keras.layers.Dense(4, activation="tanh"), keras.layers.Dense(1)]
    module = keras.Sequential(layers)
    batch = torch.arange(12.0).reshape(4, 3) / 12, torch.ones(4, 1)
    return module, torch.nn.functional.mse_loss, batch, torch.optim.SGD(module.parameters(), lr=0.1)
"""

KINDS = ("bias", "kernel")

IN_A_PLAIN_LOOP = """
import sys
import torch
from safetensors.torch import load_file
from autosync.engine.pytorch.task import build_task

task = build_task("on_torch:model")
for step in range(4):
    task.optimizer.zero_grad()
    task.loss(task.module(task.batch[0]), task.batch[1]).backward()
    task.optimizer.step()
trained = load_file(sys.argv[1])
pairs = [(trained[name], value) for name, value in task.parameters.items()]
print(len(pairs), "alike" if all(torch.allclose(*pair, atol=1e-6) for pair in pairs) else pairs)
"""

SECONDS = 100.0


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the modules *in_torch* and *in_keras*."""
    (tmp_path / "in_torch.py").write_text(MODULE.format(imports="import torch", functions=IN_TORCH))
    (tmp_path / "in_keras.py").write_text(MODULE.format(imports="import keras\nimport numpy as np", functions=IN_KERAS))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("spec", "framework"), [("in_torch:module", "pytorch"), ("in_keras:model", "tensorflow")])
def test_a_function_without_a_framework_by_name_is_called_once_and_decides(
    folder: Path, spec: str, framework: str
) -> None:
    found, captured = capture_in_subprocess(spec, SECONDS, framework=None)
    assert found == framework
    engine: Engine = engine_named(framework)
    assert engine.load_captured(captured).spec.batch_size == 4
    assert (folder / "calls").read_text() == "x"


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("spec", "stated", "sentence"),
    [
        ("in_torch:module", "tensorflow", r"^'in_torch:module' returns a PyTorch module, but the framework tensorflow"),
        ("in_keras:model", "pytorch", r"^'in_keras:model' returns a Keras model, but the framework pytorch needs a Py"),
        (
            "in_torch:number",
            None,
            r"^'in_torch:number' must return \(module, .* whose first item is the model, not int",
        ),
    ],
)
def test_a_framework_that_contradicts_the_model_is_refused(spec: str, stated: str | None, sentence: str) -> None:
    with pytest.raises(ModelError, match=sentence) as refused:
        try_in_subprocess(spec, SECONDS, framework=stated)
    assert "\n" not in str(refused.value)


@pytest.mark.thorough
@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("stated", [None, "pytorch"])
def test_a_function_for_keras_on_tensorflow_is_refused_where_keras_runs_on_torch(
    monkeypatch: pytest.MonkeyPatch, stated: str | None
) -> None:
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    with pytest.raises(
        ModelError, match=r"^'in_keras:model' must return \(module, loss, \(inputs, targets\), optimizer"
    ):
        try_in_subprocess("in_keras:model", SECONDS, framework=stated)


def test_a_keras_model_on_torch_trains_as_a_module_in_a_plain_loop(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    (folder / "on_torch.py").write_text(MODULE.format(imports="import keras\nimport torch", functions=KERAS_ON_TORCH))
    names = [f"_functional._torch_params.sequential/dense{number}/{kind}" for number in ("", "_1") for kind in KINDS]
    summed = [{"variable": name, "shards": [{"all_reduce": 0, "algorithm": "ring"}]} for name in names]
    replicas = ["node0/cpu:0", "node0/cpu:1"]
    strategy = {"format": "autosync.strategy/1", "replicas": replicas, "variables": summed}
    (folder / "strategy.json").write_text(json.dumps(strategy))
    command = ("train", "--backend", "local", "--workers", "2", "--model", "on_torch:model")
    trained = [sys.executable, "-m", "autosync", *command, "--strategy", "strategy.json", "--steps", "4"]
    done = subprocess.run([*trained, "--out", "run"], capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    (checkpoint,) = folder.glob("run/**/step-00000004.safetensors")
    plain = [sys.executable, "-c", IN_A_PLAIN_LOOP, str(checkpoint)]
    shown = subprocess.run(plain, capture_output=True, text=True, cwd=folder)
    assert shown.stdout == "4 alike\n", shown.stderr


def test_a_torch_module_loads_no_tensorflow(folder: Path) -> None:
    program = (
        "import sys; from autosync.zoo.own_framework import build_own\n"
        "framework, task = build_own('in_torch:module')\n"
        "print(framework, sorted({'tensorflow', 'keras'} & set(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=folder)
    assert shown.stdout == "pytorch []\n"


def test_a_zoo_model_takes_the_framework_that_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert framework_by_name("bert", None) == "tensorflow"
    assert framework_by_name("bert", "pytorch") == "pytorch"
    assert framework_by_name("mine:build", None) is None
    monkeypatch.setattr("autosync.zoo.names.find_spec", lambda _name: None)
    assert framework_by_name("bert", None) == "pytorch"


def test_a_trial_takes_the_framework_of_the_model(folder: Path) -> None:
    on_server = [{"variable": name, "shards": [{"parameter_server": "node0/cpu:0"}]} for name in ("weight", "bias")]
    strategy = {"format": "autosync.strategy/1", "replicas": ["node0/cpu:0"], "variables": on_server}
    (folder / "strategy.json").write_text(json.dumps(strategy))
    command = (
        *("trial", "--backend", "local", "--workers", "1", "--model", "in_torch:module", "--strategy", "strategy.json"),
        *("--steps", "3", "--json"),
    )
    done = subprocess.run([sys.executable, "-m", "autosync", *command], capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    record = RuntimeRecord.from_json(json.loads(done.stdout))
    assert (record.framework, record.outcome, len(record.step_seconds)) == ("pytorch", "ok", 3)
