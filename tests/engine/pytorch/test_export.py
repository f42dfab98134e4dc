"""An exported strategy is a file of plain PyTorch, which torchrun runs without autosync, and which trains like DDP."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from autosync.baselines import BASELINES
from autosync.baselines.ddp import in_bf16, under_ddp
from autosync.commands import main
from autosync.engine.pytorch.capture import capture
from autosync.engine.pytorch.task import build_task
from autosync.spec import AllReduce, Cast, DDPSettings, ModelSpec, Strategy, uncut
from tests.cases import local_cluster

CLUSTER = local_cluster(2)
LAYERS = """[*(nn.Linear(32, 32) for _ in range(4)), nn.BatchNorm1d(32)]"""

SCRIPT = f"""
import gc, json, sys
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
import settings

torch.set_num_threads(1)
torch.distributed.init_process_group("gloo")
rank, printed = torch.distributed.get_rank(), {{}}
ZERO = "ZeroRedundancyOptimizer" in vars(settings)
wrap_exported = DistributedDataParallel if ZERO else settings.wrap
for name, wrap in (("plain", DistributedDataParallel), ("exported", wrap_exported)):
    torch.manual_seed(0)
    model = wrap(nn.Sequential(*{LAYERS}).double())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    if ZERO and name == "exported":
        model, optimizer = settings.wrap(model.module, optimizer)
        printed["optimizer"] = type(optimizer).__name__
    losses = printed[name] = []
    try:
        settings.verify(model)
    except RuntimeError as error:
        printed["early"] = str(error)
    for step in range(6):
        torch.manual_seed(7 * step + rank)
        optimizer.zero_grad()
        loss = (model(torch.randn(8, 32, dtype=torch.float64)) - 1).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    try:
        settings.verify(model)
    except RuntimeError as error:
        printed[f"{{name}} refused"] = str(error)
assert not any(module.startswith("autosync") for module in sys.modules)
if rank == 0:
    print(json.dumps(printed))
# gloo's threads end with the last reference to their group. If they outlive the interpreter, PyTorch aborts at times.
del model, optimizer, loss
gc.collect()
torch.distributed.destroy_process_group()
"""


def build() -> tuple[object, ...]:
    module = nn.Sequential(*eval(LAYERS)).double()
    batch = torch.randn(8, 32).double(), torch.randn(8, 32).double()
    return module, nn.functional.mse_loss, batch, torch.optim.SGD(module.parameters(), lr=0.1)


@pytest.fixture(scope="module")
def model() -> ModelSpec:
    return capture(build_task(f"{__name__}:build")).spec


def test_the_file_compresses_the_strategys_buckets(model: ModelSpec, tmp_path: Path) -> None:
    """In this process, with one rank, where the mean of a gradient is the rounded gradient."""
    strategy = in_bf16(under_ddp(model, CLUSTER, DDPSettings((100.0,), zero_redundancy_optimizer=True)), model)
    assert main(["export", written(strategy, tmp_path), "--to", "ddp", "--out", str(tmp_path / "halved.py")]) == 0
    script = f"""
import torch
from torch import nn
import halved

torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
module = nn.Sequential(*{LAYERS}).double()
model, optimizer = halved.wrap(module, torch.optim.SGD(module.parameters(), lr=0.1))
for _ in range(5):
    optimizer.zero_grad()
    model(torch.randn(8, 32, dtype=torch.float64)).square().mean().backward()
    optimizer.step()
halved.verify(model)
assert all(torch.equal(value.grad, value.grad.bfloat16().double()) for value in model.parameters())
plain = nn.parallel.DistributedDataParallel(module, bucket_cap_mb=100)
for _ in range(5):
    plain(torch.randn(8, 32, dtype=torch.float64)).square().mean().backward()
try:
    halved.verify(plain)
except RuntimeError as error:
    print(error)
torch.distributed.destroy_process_group()
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "DistributedDataParallel runs with compresses False, and not with True.\n"


def written(strategy: Strategy, folder: Path) -> str:
    file = folder / "strategy.json"
    file.write_text(json.dumps(strategy.to_json()))
    return str(file)


@pytest.mark.parametrize(
    "settings",
    [
        DDPSettings((0.001, 0.01), gradient_as_bucket_view=True),
        DDPSettings((0.02,), zero_redundancy_optimizer=True, parameters_as_bucket_view=True),
        pytest.param(DDPSettings((0.02,), static_graph=True), marks=pytest.mark.thorough),
    ],
    ids=["two caps, views", "zero", "static graph"],
)
def test_torchrun_trains_with_the_exported_settings(settings: DDPSettings, model: ModelSpec, tmp_path: Path) -> None:
    strategy = under_ddp(model, CLUSTER, settings)
    assert main(["export", written(strategy, tmp_path), "--to", "ddp", "--out", str(tmp_path / "settings.py")]) == 0
    (tmp_path / "script.py").write_text(SCRIPT)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-P", "-m", "torch.distributed.run", "--nproc-per-node", "2", "script.py"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    assert printed["exported"] == pytest.approx(printed["plain"], abs=1e-12)
    assert "exported refused" not in printed
    assert printed.get("optimizer") == ("ZeroRedundancyOptimizer" if settings.zero_redundancy_optimizer else None)
    assert "has not made its buckets yet" in printed["early"]
    assert "DistributedDataParallel runs with bucket_cap_bytes 26214400, and not with" in printed["plain refused"]


def test_the_file_is_printed_without_a_name(
    model: ModelSpec, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    strategy = under_ddp(model, CLUSTER, DDPSettings((0.5,)))
    assert main(["export", written(strategy, tmp_path), "--to", "ddp"]) == 0
    printed = capsys.readouterr().out
    assert "ARGUMENTS: dict[str, Any] = {'bucket_cap_mb': 0.5}" in printed
    assert strategy.digest in printed
    compile(printed, "ddp.py", "exec")
    assert max(map(len, printed.splitlines())) <= 120


def test_parts_that_ddp_cannot_express_are_refused_by_name(
    model: ModelSpec, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ring = BASELINES["all_reduce_25mb"](model, CLUSTER)
    encoded = uncut("0.weight", AllReduce(9, "collective", Cast("bf16")))
    cast = replace(ring, variables=(encoded, *ring.variables[1:]))
    own = replace(under_ddp(model, CLUSTER, DDPSettings()), ddp=None)
    clauses = {
        "variable '0.weight' is on the parameter server 'node0/cpu:0'": BASELINES["parameter_server"](model, CLUSTER),
        "variable '0.weight' is all-reduced by 'ring', not by PyTorch itself": ring,
        "variable '0.weight' is compressed": cast,
        "it states buckets of autosync's engine, but DistributedDataParallel fills its own up to a size": own,
    }
    for clause, strategy in clauses.items():
        assert main(["export", written(strategy, tmp_path), "--to", "ddp"]) == 2
        assert capsys.readouterr().err == (
            f"export: DistributedDataParallel cannot carry out this strategy: {clause}. Search with --space ddp, or "
            "train with autosync.torch.distribute.\n"
        )
