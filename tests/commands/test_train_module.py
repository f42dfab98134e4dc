"""The command `autosync train` with a PyTorch module: in this process, killed and resumed, and on worker processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from autosync.commands.train import main
from autosync.spec import Strategy, canonical_json
from tests.architecture.source_tree import ROOT

MODEL = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def build():
    layers = [nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(0.2), nn.Linear(8, 3)]
    module = nn.Sequential(*layers)
    features = torch.randn(60, 6)
    labels = (features[:, 0] > 0).long() + (features[:, 1] > 0).long()
    loader = DataLoader(TensorDataset(features, labels), 4, shuffle=True)
    return module, nn.functional.cross_entropy, loader, torch.optim.Adam(module.parameters(), lr=0.01)
"""

LAYERS = {"mine:build": (0, 1, 4), "mlp": (0, 2, 4)}
"""The layers with parameters of each model."""


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The working directory, with a model function, and a strategy of each model for two replicas."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    (tmp_path / "mine.py").write_text(MODEL)
    for model, layers in LAYERS.items():
        names = [f"{layer}.{part}" for layer in layers for part in ("weight", "bias")]
        document = {
            "format": "autosync.strategy/1",
            "replicas": ["node0/cpu:1", "node0/cpu:0"],
            "variables": [{"variable": name, "shards": [{"all_reduce": 0}]} for name in names],
        }
        (tmp_path / f"{model}.json").write_text(canonical_json(Strategy.from_json(document).to_json()))
    return tmp_path


def arguments(model: str, out: str, steps: int, *more: str) -> list[str]:
    chosen = ["--framework", "pytorch", "--model", model, "--strategy", f"{model}.json", "--log-every", "1"]
    return [*chosen, "--steps", str(steps), "--checkpoint-every", "4", "--out", out, *more]


def lines(out: str) -> list[tuple[int, float]]:
    documents = map(json.loads, Path(out, "loss.jsonl").read_text().splitlines())
    return [(line["step"], line["loss"]) for line in documents]


def check_equal(out: str, expected: str, steps: int) -> None:
    """Check that two runs ended with the same bits."""
    first, second = (
        safetensors.torch.load_file(f"{run}/checkpoints/step-{steps:08d}.safetensors") for run in (out, expected)
    )
    assert first.keys() == second.keys()
    assert [name for name in first if not torch.equal(first[name], second[name])] == []


@pytest.mark.parametrize("model", ["mlp", pytest.param("mine:build", marks=pytest.mark.thorough)])
def test_a_killed_run_resumes_to_the_losses_and_the_bits_of_an_uninterrupted_one(model: str, capfd: Any) -> None:
    assert main(arguments(model, "whole", 30, "--backend", "local")) == 0, capfd.readouterr()
    assert lines("whole")[-1][1] < lines("whole")[0][1]
    command = [sys.executable, "-m", "autosync", "train", *arguments(model, "killed", 10**6, "--backend", "local")]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while not process.stdout.readline().startswith("step       9 "):
            assert process.poll() is None
        process.kill()
    killed_at = lines("killed")[-1][0]
    assert main(arguments(model, "killed", 30, "--backend", "local", "--resume")) == 0
    assert "Resuming after step " in capfd.readouterr().out
    assert lines("killed")[:killed_at] == lines("whole")[:killed_at]
    resumed = lines("killed")[killed_at:]
    assert resumed == lines("whole")[resumed[0][0] - 1 :]
    check_equal("killed", "whole", 30)


@pytest.mark.thorough  # it starts Ray itself
def test_a_killed_worker_is_named_and_the_run_goes_on_to_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    seldom = ("--checkpoint-every", "50")
    command = [sys.executable, "-m", "autosync", "train", *arguments("mine:build", "killed", 10**6, *seldom)]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        while not process.stdout.readline().startswith("step      70 "):
            assert process.poll() is None
        os.kill(workers_below(process.pid)[1], signal.SIGKILL)
        printed, complaint = process.communicate(timeout=100)
    assert process.returncode == 1
    assert " on node0 has died. Resume from the checkpoint 'killed/checkpoints/step-0" in complaint
    assert "Go on with: autosync train --framework pytorch --model mine:build " in printed
    before = dict(lines("killed"))
    steps = max(before) + 5
    assert main(arguments("mine:build", "killed", steps, *seldom, "--resume")) == 0
    resumed = dict(lines("killed")[len(before) :])
    assert len(resumed) >= 5
    assert max(resumed) == steps
    assert {step: loss for step, loss in resumed.items() if step in before}.items() <= before.items()


def workers_below(ancestor: int) -> list[int]:
    """The worker processes that descend from the process `ancestor`."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in listed.splitlines()]
    parents = {int(pid): int(parent) for pid, parent, _ in rows}

    def descends(pid: int) -> bool:
        return pid == ancestor or (pid in parents and descends(parents[pid]))

    return [int(pid) for pid, _, title in rows if title.startswith("ray::WorkerProcess") and descends(int(pid))]


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (("--model", "digits"), "train: No model is called 'digits' in PyTorch. Known: bert-base, "),
        (("--strategy", "mine:build.json"), "train: A strategy belongs to one model, and this strategy is another"),
        (("--framework", "jax"), "train: Invalid value for '--framework'"),
    ],
)
def test_wrong_options_are_refused_in_a_sentence(more: tuple[str, ...], sentence: str, capfd: Any) -> None:
    assert main([*arguments("mlp", "run", 2, "--backend", "local"), *more]) == 2
    refusal = capfd.readouterr().err
    assert (refusal.startswith(sentence), refusal.count("\n")) == (True, 1), refusal
    assert not Path("run/run.json").exists()


def test_a_run_is_resumed_with_its_framework_and_its_own_checkpoints_alone(capfd: Any) -> None:
    assert main(arguments("mlp", "run", 2, "--backend", "local")) == 0
    keras = [argument.replace("pytorch", "tensorflow") for argument in arguments("mlp", "run", 3, "--resume")]
    assert main(keras) == 2
    assert "--resume needs the same --framework, but it was 'pytorch' and now is 'tensor" in capfd.readouterr().err
    (file,) = Path("run/checkpoints").iterdir()
    file.write_bytes(b"noise")
    assert main(arguments("mlp", "run", 3, "--backend", "local", "--resume")) == 2
    assert f"train: '{file}' must be a checkpoint of autosync train, but: " in capfd.readouterr().err
