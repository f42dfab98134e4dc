"""Training of winners: a rank's loop under a real torchrun, its held passes, and the table of gains."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from autosync.baselines import baselines_for
from autosync.engine.pytorch.capture import capture, profile
from autosync.spec import ClusterSpec, ModelProfile, ModelSpec, Pace, Variable
from autosync.zoo import build_task
from studies.proof.outcomes import outcomes_of
from studies.proof.tables import training_table
from studies.proof.training_rank import HeldPasses, TrainingPlan
from tests.cases import local_cluster
from tests.studies.proof.test_outcomes import USUAL, finals

ROOT = Path(__file__).parents[3]
PASS_SECONDS = 0.15


def paced_cluster() -> ClusterSpec:
    cluster = local_cluster(2)
    return replace(cluster, nodes=tuple(replace(node, pace=Pace(0.0, PASS_SECONDS)) for node in cluster.nodes))


def test_ranks_of_torchrun_train_alike_under_ddp_and_under_strategies_at_the_pace(tmp_path: Path) -> None:
    model, cluster = profile(capture(build_task("mlp", framework="pytorch"))).spec, paced_cluster()
    strategies = [baselines_for("pytorch")[name](model, cluster) for name in ("ddp", "byteps", "all_reduce_25mb")]
    strategies[2] = replace(strategies[2], overlap_next_forward=True)
    plan = TrainingPlan("mlp", model, cluster, tuple(strategies), 0, rounds=2, warm_up=1, steps=3)
    (file := tmp_path / "plan.json").write_text(json.dumps(plan.to_json()))
    argv = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "studies.proof.training_rank"]
    done = subprocess.run(
        [sys.executable, *argv, str(file)],
        cwd=ROOT, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert all(seconds >= PASS_SECONDS for turns in answer["seconds"] for seconds in turns)
    assert [len(turns) for turns in answer["seconds"]] == [2, 2, 2]
    ddp, *others = answer["losses"]
    assert ddp[0] != ddp[1]
    assert others == [pytest.approx(ddp, rel=1e-4)] * 2
    assert all(late >= 0 for late in answer["late_seconds"])


def test_gradients_and_reads_are_held_until_their_times() -> None:
    module = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    model = ModelSpec(
        "two", 1, "sgd", 0, (Variable("0.weight", (2, 2), "float32", 1), Variable("1.weight", (2, 2), "float32", 0)),
        profile=ModelProfile(1.0, 2.0, {"0.weight": 1.0, "1.weight": 0.5}, {"0.weight": 0.0, "1.weight": 0.5}),
    )  # fmt: skip
    held = HeldPasses(module, model)
    seen: dict[str, float] = {}
    for name, parameter in module.named_parameters():
        parameter.register_post_accumulate_grad_hook(
            lambda _, name=name: seen.__setitem__(name, time.perf_counter() - began)
        )
    began = time.perf_counter()
    held.begin(0.3)
    loss = module(torch.ones(1, 2)).sum()
    assert time.perf_counter() - began >= 0.05  # half of a forward pass of 0.1 seconds
    loss.backward()
    assert 0.2 <= seen["1.weight"] < 0.3 <= seen["0.weight"]
    assert 0.0 <= held.late_seconds < 0.1


def test_the_table_compares_gains_in_training_with_those_of_the_finals() -> None:
    outcomes = outcomes_of(finals(guided=150.0, **USUAL), [])
    rows = [
        row | {"losses": [1.0, 0.5 + 1e-6 * place], "late_seconds": 1e-3}
        for place, row in enumerate(finals(default=310.0, baseline=220.0, guided=170.0))
    ]
    (row,) = training_table(outcomes, rows).rows
    assert row[:5] == ("paced_two_racks", "bert-mini", "317.8", "225.5", "174.3")
    assert [gain.split(" ")[0] for gain in row[5:9]] == ["1.82", "2.00", "1.29", "1.33"]
    assert row[9:] == ("1.0", "2e-06")
