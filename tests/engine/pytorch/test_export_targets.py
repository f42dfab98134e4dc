"""Strategies as files for DeepSpeed and Horovod: the right settings, or a refusal by name. Neither program is run."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from autosync.baselines import BASELINES, DDP_BASELINES
from autosync.baselines.ddp import in_bf16, under_ddp
from autosync.commands import main
from autosync.engine.pytorch.distribution import model_of
from autosync.spec import AllReduce, Cast, DDPSettings, Strategy, uncut
from tests.cases import local_cluster

CLUSTER = local_cluster(2)
MODULE = nn.Sequential(nn.Embedding(9, 32, sparse=True), *(nn.Linear(32, 32) for _ in range(3)))
DENSE = nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 32))
MODEL, DENSE_MODEL = (
    model_of(module, [name for name, _ in reversed([*module.named_parameters()])]) for module in (MODULE, DENSE)
)


def exported(strategy: Strategy, target: str, folder: Path) -> str:
    file, out = folder / "strategy.json", folder / "written"
    file.write_text(json.dumps(strategy.to_json()))
    assert main(["export", str(file), "--to", target, "--out", str(out)]) == 0
    return out.read_text()


def zero(*caps: float, views: bool = True) -> Strategy:
    settings = DDPSettings(caps, zero_redundancy_optimizer=True, parameters_as_bucket_view=views)
    return under_ddp(DENSE_MODEL, CLUSTER, settings)


def test_deepspeed_gets_one_bucket_without_zero_and_a_cap_in_elements_with_it(tmp_path: Path) -> None:
    whole = DDP_BASELINES["ddp_one_bucket"](DENSE_MODEL, CLUSTER)
    assert json.loads(exported(whole, "deepspeed", tmp_path)) == {"zero_optimization": {"stage": 0}}
    document = json.loads(exported(zero(0.5), "deepspeed", tmp_path))
    assert document["zero_allow_untested_optimizer"] is True
    assert document["zero_optimization"] == {
        "stage": 1,
        "reduce_bucket_size": (1 << 19) // 4,
        "allgather_bucket_size": 500_000_000,
        "overlap_comm": True,
        "contiguous_gradients": True,
    }
    compressed = json.loads(exported(in_bf16(whole, DENSE_MODEL), "deepspeed", tmp_path))
    assert compressed == {"zero_optimization": {"stage": 0}, "communication_data_type": "bf16"}


def test_horovod_gets_the_buckets_as_groups_and_a_threshold_that_holds_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library is not here, so a stand-in notes the calls."""
    strategy = under_ddp(MODEL, CLUSTER, DDPSettings((0.004,)))
    text = exported(strategy, "horovod", tmp_path)
    assert max(map(len, text.splitlines())) <= 120
    calls: dict[str, Any] = {}

    def note(optimizer: torch.optim.Optimizer, **arguments: Any) -> torch.optim.Optimizer:
        calls.update(arguments)
        return optimizer

    library = ModuleType("horovod.torch")
    vars(library).update(
        init=lambda: calls.update(threshold=os.environ["HOROVOD_FUSION_THRESHOLD"]),
        broadcast_parameters=lambda *_, **__: None,
        broadcast_optimizer_state=lambda *_, **__: None,
        DistributedOptimizer=note,
        Compression=SimpleNamespace(none="no compression", fp16="fp16"),
    )
    package = ModuleType("horovod")
    vars(package)["torch"] = library
    monkeypatch.setitem(sys.modules, "horovod", package)
    monkeypatch.setitem(sys.modules, "horovod.torch", library)
    for name in ("FUSION_THRESHOLD", "DISABLE_GROUP_FUSION", "AUTOTUNE"):
        monkeypatch.setenv(f"HOROVOD_{name}", "")
    written: dict[str, Any] = {}
    exec(compile(text, "horovod_strategy.py", "exec"), written)
    written["start"](MODULE)
    written["wrap"](MODULE, torch.optim.SGD(MODULE.parameters(), lr=0.1), backward_passes_per_step=2)
    assert calls["threshold"] == str((32 * 32 + 32) * 4)
    assert calls["compression"] == "no compression"
    assert calls["backward_passes_per_step"] == 2
    named = {parameter: name for name, parameter in MODULE.named_parameters()}
    groups = [sorted(named[parameter] for parameter in group) for group in calls["groups"]]
    assert sorted(groups) == [[f"{layer}.bias", f"{layer}.weight"] for layer in (1, 2, 3)]  # the table is alone


def test_horovod_compresses_all_gradients_to_fp16_and_fuses_none_without_groups(tmp_path: Path) -> None:
    alone = BASELINES["all_reduce_per_variable"](DENSE_MODEL, CLUSTER)
    text = exported(alone, "horovod", tmp_path)
    assert "GROUPS: list[list[str]] = []" in text
    assert "for group in GROUPS] or None," in text
    cast = tuple(uncut(name, AllReduce(number, "ring", Cast("fp16"))) for number, name in enumerate(alone.by_name))
    assert "compression=hvd.Compression.fp16," in exported(replace(alone, variables=cast), "horovod", tmp_path)


@pytest.mark.parametrize(
    ("target", "strategy", "clause"),
    [
        (
            "deepspeed",
            BASELINES["all_reduce_25mb"](DENSE_MODEL, CLUSTER),
            "variable '0.weight' is all-reduced by 'ring'",
        ),
        (
            "deepspeed",
            under_ddp(DENSE_MODEL, CLUSTER, DDPSettings((0.001,))),
            "variable '1.weight' is in a second bucket",
        ),
        ("deepspeed", zero(), "its buckets have 2 caps"),
        ("deepspeed", zero(1.0, views=False), "each parameter is broadcast alone"),
        ("horovod", BASELINES["parameter_server"](MODEL, CLUSTER), "variable '0.weight' is on the parameter server"),
        (
            "horovod",
            in_bf16(DDP_BASELINES["ddp"](DENSE_MODEL, CLUSTER), DENSE_MODEL),
            "variable '0.weight' is compressed",
        ),
        ("horovod", zero(), "ZeroRedundancyOptimizer wraps the optimizer"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_parts_that_a_program_cannot_express_are_refused_by_name(
    target: str, strategy: Strategy, clause: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "strategy.json"
    file.write_text(json.dumps(strategy.to_json()))
    assert main(["export", str(file), "--to", target]) == 2
    program = {"deepspeed": "DeepSpeed", "horovod": "Horovod"}[target]
    assert capsys.readouterr().err.startswith(f"export: {program} cannot carry out this strategy: {clause}")


def test_a_program_that_compresses_all_or_none_refuses_a_mixture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ring = BASELINES["all_reduce_per_variable"](DENSE_MODEL, CLUSTER)
    mixed = (*ring.variables[:-1], uncut("1.bias", AllReduce(9, "ring", Cast("fp16"))))
    file = tmp_path / "strategy.json"
    file.write_text(json.dumps(replace(ring, variables=mixed).to_json()))
    assert main(["export", str(file), "--to", "horovod"]) == 2
    assert "variable '0.weight' is not compressed but others are" in capsys.readouterr().err
