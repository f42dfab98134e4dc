"""Commands that are killed at various moments: within 20 s, none of their runs has a process left."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.trials.emulate.clusters import needs_root
from tests.tune.jobs import Job

pytestmark = pytest.mark.thorough  # tests/trials/test_guard kills a program that uses the same Ray

SECONDS = 20.0
COMMAND = (
    *("--model", "mlp", "--workers", "2", "--steps", "20", "--warmup", "2", "--rounds", "40"),
    *("--trials", "3", "--simulator", "analytic", "--no-probe", "--out", "runs/one", "--data", "data"),
)
STRATEGY = {
    "format": "autosync.strategy/1",
    "replicas": ["node0/cpu:0", "node0/cpu:1"],
    "variables": [
        {"variable": f"{layer}/{part}", "shards": [{"all_reduce": 0}]}
        for layer in ("dense_0", "dense_1", "logits")
        for part in ("kernel", "bias")
    ],
}

Start = Callable[..., Job]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    jobs: list[Job] = []

    def started(*arguments: str, module: str = "autosync.tune") -> Job:
        jobs.append(Job(tmp_path, *arguments, module=module))
        return jobs[-1]

    yield started
    for job in jobs:
        job.end()


def while_ray_starts(job: Job) -> None:
    job.wait_until(lambda: bool(job.titled("raylet")), "the first of Ray's processes")


def while_workers_start(job: Job) -> None:
    job.wait_until(lambda: bool(job.titled("ray::WorkerProcess")), "a worker")


def in_mid_trial(job: Job) -> None:
    job.wait_for("   2/3")


def in_the_finals(job: Job) -> None:
    job.wait_for("All 3 trials have run.")


@pytest.mark.parametrize("moment", [while_ray_starts, while_workers_start, in_mid_trial, in_the_finals])
def test_nothing_is_left_of_a_search_that_was_killed(start: Start, moment: Callable[[Job], None]) -> None:
    job = start(*COMMAND)
    moment(job)
    job.kill()
    assert job.left_behind(SECONDS) == []


@needs_root
def test_nothing_is_left_of_the_cluster_that_a_killed_search_had_made(start: Start) -> None:
    job = start(*COMMAND[:2], *COMMAND[4:], "--emulate", "2x200mbit")
    job.wait_for("   1/3")
    assert job.of_its_cluster()
    job.kill()
    assert job.left_behind(SECONDS) == []
    assert job.of_its_cluster() == []


@pytest.mark.parametrize("command", ["train", "trial"])
def test_nothing_is_left_of_training_or_of_a_trial_that_was_killed(start: Start, command: str, tmp_path: Path) -> None:
    (tmp_path / "strategy.json").write_text(json.dumps(STRATEGY))
    job = start(command, "--model", "mlp", "--strategy", "strategy.json", "--steps", "1000000", module="autosync")
    while_workers_start(job)
    job.wait_until(lambda: len(job.titled("ray::WorkerProcess")) >= 2, "both workers")
    job.kill()
    assert job.left_behind(SECONDS) == []
