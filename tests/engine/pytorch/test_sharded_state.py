"""The optimizer's state, split among ranks under torchrun: sharded checkpoints, and a scaler for all ranks."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.engine.pytorch.test_torchrun import torchrun

TRAINING = """
import os, sys, torch, torch.distributed.checkpoint as dcp, autosync.torch
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
strategy, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
torch.set_num_threads(1)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(7, 13), torch.nn.Tanh(), torch.nn.Linear(13, 3)).double()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
rank, replicas = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
scaler, clip = torch.amp.GradScaler("cpu", init_scale=16.0), torch.nn.utils.clip_grad_norm_
state = {"model": model.state_dict()}
if strategy != "plain":
    autosync.torch.distribute(model, strategy, optimizer=optimizer, overlap_next_forward=first > 0)
    scaler = ShardedGradScaler("cpu", init_scale=16.0)
    state["optimizer"] = autosync.torch.optimizer_shards(model)
schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
if first:
    dcp.load(state, checkpoint_id="shards")
    scaler.load_state_dict(torch.load("scaler.pt", weights_only=True))
for step in range(first, last):
    examples = torch.randn(12, 7, generator=torch.Generator().manual_seed(step), dtype=torch.float64)
    loss = model(examples[rank::replicas]).square().mean()
    if step == 1 and rank == replicas - 1:
        loss = loss * torch.inf  # the step is skipped
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = (clip(model.parameters(), 0.1) if strategy == "plain" else autosync.torch.clip_grad_norm_(model, 0.1))
    assert not norm <= 0.1, "nothing is clipped"
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    schedule.step()
assert scaler.get_scale() == 8.0
if strategy != "plain":
    dcp.save(state, checkpoint_id="shards")
whole = optimizer.state_dict()
if rank == 0:
    torch.save(scaler.state_dict(), "scaler.pt")
    torch.save({"model": model.state_dict(), "optimizer": whole}, f"{strategy}-{last}.pt")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "training.py").write_text(TRAINING)
    return tmp_path


def train(folder: Path, ranks: int, strategy: str, first: int, last: int) -> tuple[list[torch.Tensor], str]:
    """The parameters at the end, and the settings and numbers of steps in the optimizer's state."""
    done = torchrun(folder, "training.py", strategy, str(first), str(last), ranks=ranks)
    assert done.returncode == 0, done.stderr
    saved = torch.load(folder / f"{strategy}-{last}.pt", weights_only=True)
    state = saved["optimizer"]
    tensors = [value for of in state["state"].values() for value in of.values()]
    return [*saved["model"].values(), *tensors], str(state["param_groups"])


def test_sharded_checkpoints_load_with_other_ranks_and_strategies(folder: Path) -> None:
    expected, settings = train(folder, 1, "plain", 0, 6)
    train(folder, 3, "byteps", 0, 3)
    resumed, resumed_settings = train(folder, 2, "partitioned_parameter_server", 3, 6)
    assert resumed_settings == settings
    assert len(resumed) == len(expected)
    for found, value in zip(resumed, expected, strict=True):
        assert torch.allclose(found, value, rtol=0.0, atol=1e-9)
