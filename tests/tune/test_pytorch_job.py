"""A search of a PyTorch module as a person runs it, with workers that are killed and stopped in its middle."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray

from autosync.dataset import RecordStore
from autosync.engine.core.versions import VERSIONS
from autosync.errors import ModelError
from autosync.spec import DDPSettings, Strategy
from tests.report.pages import seen
from tests.tune.jobs import Job, ended
from trials.workers.framework_on_node import framework_on_node

TRIALS = 8

MODEL = """
import torch
from torch import nn


def build():
    table = nn.Embedding(50, 16, sparse=True)
    module = nn.Sequential(table, nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3))
    batch = torch.randint(50, (16, 4)), torch.randint(3, (16,))
    return module, nn.functional.cross_entropy, batch, torch.optim.SGD(module.parameters(), lr=0.1)


def broken():
    raise ValueError("no layers today")
"""

COMMAND = (
    *("--model", "mine:build", "--workers", "3", "--steps", "5", "--warmup", "2"),
    *("--rounds", "2", "--trials", str(TRIALS), "--trial-time-limit", "12", "--out", "runs/one", "--data", "data"),
)


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    (tmp_path / "mine.py").write_text(MODEL)
    started = Job(tmp_path, *COMMAND)
    yield started
    started.end()


def test_a_search_survives_a_killed_and_a_stopped_worker_and_names_the_way_to_train(job: Job, tmp_path: Path) -> None:
    job.wait_for(f"   2/{TRIALS}")
    job.kill_one("ray::WorkerProcess")
    job.wait_for(f"   4/{TRIALS}")
    job.signal_one("ray::WorkerProcess", signal.SIGSTOP)
    printed = ended(job, 0)
    records = RecordStore(tmp_path / "data").read()
    assert {(record.framework, record.kind) for record in records} == {("pytorch", "pytorch-real")}
    assert {record.versions["autosync.engine"] for record in records} == {str(VERSIONS["pytorch"])}
    assert all(record.versions["torch"] for record in records)
    faults = Counter(record.outcome for record in records if record.outcome not in ("ok", "stopped"))
    assert 1 <= faults["lost"] + faults["timed_out"] + faults["failed"] <= 4, [record.reason for record in records]
    assert {record.model.by_name["0.weight"].sparse for record in records} == {True}
    defaults = [record for record in records if record.label == "ddp" and record.purpose == "baseline"]
    assert [record.strategy.ddp for record in defaults] == [DDPSettings()]
    strategy = Strategy.from_json(json.loads((tmp_path / "runs/one/strategy.json").read_text()))
    assert {decision.variable for decision in strategy.variables} == {
        "0.weight",
        "2.weight",
        "2.bias",
        "4.weight",
        "4.bias",
    }
    assert (
        "Next, train with the returned strategy: call autosync.torch.distribute(model, 'runs/one/strategy.json')"
        in printed
    )
    assert (
        "or type: autosync train --framework pytorch --model mine:build --strategy runs/one/strategy.json --workers 3"
        in " ".join(printed.split())
    )
    assert seen(tmp_path / "runs/one/report.html").faults == []


@pytest.mark.thorough
def test_a_search_that_was_killed_goes_on_after_its_last_record(job: Job, tmp_path: Path) -> None:
    job.wait_for(f"   3/{TRIALS}")
    job.kill()
    kept = RecordStore(tmp_path / "data").read()
    again = Job(tmp_path, *COMMAND, "--resume")
    try:
        ended(again, 0)
    finally:
        again.end()
    searched = [record for record in RecordStore(tmp_path / "data").read() if record.sequence is not None]
    assert [record.sequence for record in searched] == list(range(TRIALS))
    assert searched[: len(kept)] == kept


def test_a_search_for_users_of_ddp_times_ddp_itself_and_names_the_way_to_export(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MODEL.replace(", sparse=True", ""))
    job = Job(tmp_path, *COMMAND, "--space", "ddp", "--counterfactuals", "1")
    printed = ended(job, 0)
    job.end()
    records = RecordStore(tmp_path / "data").read()
    assert {record.outcome for record in records} <= {"ok", "stopped"}, [record.reason for record in records]
    assert all(record.strategy.ddp is not None for record in records)
    first, *_ = sorted(records, key=lambda record: record.started_at)
    assert (first.label, first.purpose, first.strategy.ddp) == ("ddp", "baseline", DDPSettings())
    assert {record.purpose for record in records} == {"baseline", "search", "remeasure"}
    result = json.loads((tmp_path / "runs/one/result.json").read_text())
    verdict = result["verdict"]
    assert "ddp" in (verdict["baseline_label"], verdict.get("over_default", {}).get("label"))
    best = Strategy.from_json(json.loads((tmp_path / "runs/one/strategy.json").read_text()))
    assert best.digest == verdict["winner"]
    assert (
        "Next, train with the returned strategy: autosync export runs/one/strategy.json --to ddp --out "
        "runs/one/ddp_strategy.py, and wrap your model with that file (docs/pytorch.md)"
    ) in printed
    assert "PyTorch's DistributedDataParallel itself synchronizes, with " in printed
    assert "so no decision is reverted alone" in printed
    page = seen(tmp_path / "runs/one/report.html")
    assert page.faults == []
    assert "autosync export runs/one/strategy.json --to ddp" in page.text


@pytest.mark.thorough
def test_a_model_function_that_raises_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MODEL)
    failing = Job(tmp_path, "--model", "mine:broken", "--trials", "3", "--out", "runs/one")
    ended(failing, 2)
    failing.end()
    assert failing.complaint.startswith(
        "tune: The function 'mine:broken', called without arguments, failed: ValueError: no layers today (at mine.py:"
    )


@pytest.mark.thorough
def test_on_a_joined_cluster_a_node_finds_the_framework(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MODEL)
    ray.init(num_cpus=1, include_dashboard=False, logging_level="ERROR")
    try:
        assert framework_on_node("mine:build", 100.0, [str(tmp_path)]) == "pytorch"
        with pytest.raises(ModelError, match="The function 'mine:broken', called without arguments, failed"):
            framework_on_node("mine:broken", 100.0, [str(tmp_path)])
    finally:
        ray.shutdown()
