"""The program refuses simulator checkpoints with impossible numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from autosync.simulator import CheckpointError, LearnedSimulator
from autosync.simulator.saved import read_checkpoint, shipped_checkpoint, write_checkpoint


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_tensors_must_be_finite(tmp_path: Path, value: float) -> None:
    tensors, document = read_checkpoint(shipped())
    name = max(tensors, key=lambda called: tensors[called].numel())
    tensors[name].view(-1)[0] = value
    write_checkpoint(tmp_path, tensors, document)
    with pytest.raises(CheckpointError, match="must hold finite numbers, but '"):
        LearnedSimulator.load(tmp_path)


@pytest.mark.parametrize("members", [-1, 10**9, 1.5, True, "3", None])
def test_the_number_of_members_is_one_of_those_there_are(tmp_path: Path, members: Any) -> None:
    tensors, document = read_checkpoint(shipped())
    write_checkpoint(tmp_path, tensors, {**document, "members": members})
    with pytest.raises(CheckpointError) as refused:
        LearnedSimulator.load(tmp_path)
    assert len(str(refused.value)) < 500


def test_a_whole_checkpoint_is_finite() -> None:
    tensors, _ = read_checkpoint(shipped())
    assert all(bool(torch.isfinite(tensor).all()) for tensor in tensors.values())


def shipped() -> Path:
    folder = shipped_checkpoint("real")
    assert folder is not None
    return folder
