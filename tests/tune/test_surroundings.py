"""The command in environments that users' machines have: behind a proxy, for example."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.engine.test_proxies import BOTH_CASES
from tests.trials.emulate.clusters import needs_root
from tests.tune.jobs import Job, ended
from tests.tune.test_killed import STRATEGY

SEARCH = (
    *("--model", "mlp", "--trials", "3", "--steps", "5", "--warmup", "2", "--rounds", "1"),
    *("--simulator", "analytic", "--out", "runs/one", "--data", "data"),
)

Start = Callable[..., Job]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    jobs: list[Job] = []

    def started(*arguments: str, module: str = "autosync.tune", **settings: str) -> Job:
        before = ("env", *(f"{name}={value}" for name, value in settings.items())) if settings else ()
        jobs.append(Job(tmp_path, *arguments, module=module, before=before))
        return jobs[-1]

    yield started
    for job in jobs:
        job.end()


@pytest.mark.thorough
@pytest.mark.parametrize("where", [("--workers", "2"), pytest.param(("--emulate", "2x200mbit"), marks=needs_root)])
def test_a_search_reaches_its_workers_past_a_proxy_that_never_answers(start: Start, where: tuple[str, ...]) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listener:
        proxy = f"http://127.0.0.1:{listener.getsockname()[1]}"
        printed = ended(start(*SEARCH, *where, **dict.fromkeys(BOTH_CASES, proxy)), 0)
    assert "All 3 trials have run." in printed


LONG = (*SEARCH[:2], "--trials", "60", *SEARCH[4:], "--workers", "2")
"""A search with many trials left."""


@pytest.mark.thorough
@pytest.mark.parametrize("whole_group", [False, True], ids=["as kill", "as timeout"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_search_that_is_asked_to_end_says_how_to_resume(start: Start, number: int, whole_group: bool) -> None:
    job = start(*LONG, "--no-probe")
    job.wait_for("   2/60")
    job.ask_to_end(number, whole_group)
    printed = ended(job, 128 + number)
    assert "Resume with: autosync tune " in printed
    assert printed.rstrip().endswith("--resume")


@pytest.mark.thorough
def test_a_search_that_is_asked_to_end_while_ray_starts_leaves_nothing(start: Start) -> None:
    job = start(*LONG)
    job.wait_until(lambda: bool(job.titled("raylet")), "the first of Ray's processes")
    job.ask_to_end(signal.SIGTERM)
    ended(job, 128 + signal.SIGTERM)


@pytest.mark.thorough
@needs_root
def test_an_emulated_search_that_is_asked_to_end_takes_its_cluster_down(start: Start) -> None:
    job = start(*LONG[:-2], "--emulate", "2x200mbit")
    job.wait_for("   2/60")
    job.ask_to_end(signal.SIGTERM)
    assert "Resume with: autosync tune " in ended(job, 128 + signal.SIGTERM)
    assert job.of_its_cluster() == []


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_training_that_is_asked_to_end_saves_the_model_and_says_how_to_resume(
    start: Start, tmp_path: Path, number: int
) -> None:
    (tmp_path / "strategy.json").write_text(json.dumps(STRATEGY))
    training = ("--model", "mlp", "--strategy", "strategy.json", "--steps", "1000000", "--out", "runs/trained")
    job = start("train", *training, module="autosync")
    job.wait_for("step      10 ")
    job.ask_to_end(number)
    printed = ended(job, 128 + number)
    assert "; saved runs/trained/checkpoints/" in printed
    assert printed.rstrip().endswith("--resume")
