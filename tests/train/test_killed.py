"""A training with each mechanism of a discipline is killed without warning, and then resumed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import pytest

from tests.architecture.source_tree import ROOT
from tests.train.models import REPLICAS

pytestmark = pytest.mark.thorough

STEPS = 200
TOP_K = {"name": "top_k", "ratio": 0.1, "indices": "own"}
MECHANISMS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "meeting by a period": ({"rhythm": {"steps": 4}}, {}),
    "meeting by a quantile, with block momentum": ({"rhythm": {"quantile": 0.9, "block": {"momentum": 0.5}}}, {}),
    "waiting for the first two": ({"waits": {"first": 2}}, {}),
    "keeping less and less": ({"fidelity": {"ratios": [0.5, 0.1], "steps": 60}}, TOP_K),
    "keeping what holds enough": ({"fidelity": {"ratios": [1.0, 0.5, 0.1], "steps": 20, "keeps": 0.7}}, TOP_K),
    "sharing out": ({"loads": {"parts": [4, 2, 1]}}, {}),
    "sharing out by times": ({"loads": {"parts": [1, 1, 1], "dead_band": 0.05}}, {}),
}
BY_CHANCE = ("waiting for the first two", "sharing out by times")
"""Disciplines that depend on arrival times, so no two runs are alike."""


def command(folder: Path, out: str, *more: str) -> list[str]:
    arguments = [
        "--model",
        "digits",
        "--strategy",
        str(folder / "strategy.json"),
        "--steps",
        str(STEPS),
        "--backend",
        "local",
    ]
    return [
        sys.executable,
        "-m",
        "autosync",
        "train",
        *arguments,
        "--checkpoint-every",
        "20",
        "--out",
        str(folder / out),
        *more,
    ]


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}


def weights(folder: Path, out: str) -> list[bytes]:
    model = keras.models.load_model(folder / out / "checkpoints" / f"step-{STEPS:08d}.keras")
    return [variable.numpy().tobytes() for variable in (*model.variables, *model.optimizer.variables)]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_killed_run_goes_on_as_if_it_had_not_been(mechanism: str, tmp_path: Path) -> None:
    discipline, compressor = MECHANISMS[mechanism]
    names = [f"{layer}/{part}" for layer in ("hidden", "logits") for part in ("kernel", "bias")]
    shard = {"all_reduce": 0, **({"compressor": compressor} if compressor else {})}
    document = {
        "format": "autosync.strategy/1",
        "replicas": list(REPLICAS),
        "variables": [{"variable": name, "shards": [shard]} for name in names],
        "discipline": discipline,
    }
    (tmp_path / "strategy.json").write_text(json.dumps(document))
    whole = subprocess.run(command(tmp_path, "whole"), env=environment(), capture_output=True, text=True, check=False)
    assert whole.returncode == 0, whole.stdout + whole.stderr
    killed = subprocess.Popen(
        command(tmp_path, "killed"), env=environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert killed.stdout is not None
    while not killed.stdout.readline().startswith("step      90"):
        assert killed.poll() is None
    killed.kill()
    killed.communicate()
    again = command(tmp_path, "killed", "--resume")
    resumed = subprocess.run(again, env=environment(), capture_output=True, text=True, check=False)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert "Resuming after step" in resumed.stdout
    if mechanism not in BY_CHANCE:
        assert weights(tmp_path, "killed") == weights(tmp_path, "whole")
    losses = [json.loads(line)["loss"] for line in (tmp_path / "killed" / "loss.jsonl").read_text().splitlines()]
    assert losses[-1] < losses[0]
