"""Checkpoints of modules: read back to the bit, by safetensors itself, and refused when damaged."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import safetensors.torch
import torch

from autosync.baselines import BASELINES
from autosync.engine.core.registry import engine_named
from autosync.engine.core.step_state import StepState
from autosync.engine.pytorch.capture import CapturedModule, capture
from autosync.engine.pytorch.checkpoint import checkpoint_bytes, read_checkpoint
from autosync.engine.pytorch.task import build_task
from autosync.errors import TrainingError
from autosync.zoo import build_task as build_zoo_task
from tests.cases import local_cluster
from tests.engine.pytorch.model_functions import MODELS
from tests.engine.pytorch.test_training import check_equal


def trained(task: object, steps: int = 2) -> tuple[CapturedModule, StepState]:
    """A captured module, and the state after some steps on two replicas."""
    module, cluster = capture(task), local_cluster(2)  # type: ignore[arg-type]
    runner = engine_named("pytorch").local_training(module, cluster, BASELINES["byteps"](module.spec, cluster))
    for _ in range(steps):
        runner.own()
    state = runner.state()
    runner.close()
    return module, state


@pytest.mark.parametrize("steps", [0, 2])
@pytest.mark.parametrize("model", MODELS)
def test_a_checkpoint_has_the_whole_state(model: str, steps: int) -> None:
    module, state = trained(build_task(MODELS[model]), steps)
    check_equal(read_checkpoint(checkpoint_bytes(state, module), "file", module), state)


def test_a_plain_module_loads_the_file_even_with_tied_parameters(tmp_path: Path) -> None:
    task = build_zoo_task("bert-mini", framework="pytorch")
    module, state = trained(task)
    (tmp_path / "step.safetensors").write_bytes(checkpoint_bytes(state, module))
    plain = build_zoo_task("bert-mini", framework="pytorch").module
    missing, more = safetensors.torch.load_model(plain, tmp_path / "step.safetensors", strict=False)
    assert not missing
    assert all(name.startswith("autosync/") for name in more)
    assert plain.decoder.weight is plain.tokens.weight
    for name, parameter in plain.named_parameters():
        assert parameter.detach().numpy().tobytes() == state.values[name].tobytes()


@pytest.fixture(scope="module")
def file() -> tuple[CapturedModule, bytes]:
    module, state = trained(build_task(MODELS["noisy"]))
    return module, checkpoint_bytes(state, module)


def rewritten(data: bytes, change: Callable[[dict[str, torch.Tensor], dict[str, object]], None]) -> bytes:
    size = int.from_bytes(data[:8], "little")
    document = json.loads(json.loads(data[8 : 8 + size])["__metadata__"]["autosync"])
    tensors = safetensors.torch.load(data)
    change(tensors, document)
    return safetensors.torch.save(tensors, {"autosync": json.dumps(document)})


BUFFER = "autosync/replica/1/1.running_mean"

DAMAGES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda _: b"", "its header must be JSON"),
    "noise": (lambda _: random.Random(1).randbytes(5000), "its header"),
    "cut": (lambda data: data[:-9], "incomplete"),
    "another program's": (lambda _: safetensors.torch.save({"a": torch.zeros(3)}), "__metadata__"),
    "another format": (lambda data: rewritten(data, lambda _, document: document.update(format=2)), "its format is 2"),
    "no steps": (lambda data: rewritten(data, lambda _, document: document.pop("steps")), "needs the field 'steps'"),
    "steps in words": (lambda data: rewritten(data, lambda _, document: document.update(steps="all")), "'steps'"),
    "too many replicas": (lambda data: rewritten(data, lambda _, document: document.update(replicas=9)), "replica/2"),
    "a lost tensor": (lambda data: rewritten(data, lambda tensors, _: tensors.pop(BUFFER)), "replica/1/1.running_mean"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_refused_in_a_sentence(damage: str, file: tuple[CapturedModule, bytes]) -> None:
    module, data = file
    change, reason = DAMAGES[damage]
    sentence = rf"^'x' must be a checkpoint of autosync train, but: .*{re.escape(reason)}"
    with pytest.raises(TrainingError, match=sentence):
        read_checkpoint(change(data), "x", module)
