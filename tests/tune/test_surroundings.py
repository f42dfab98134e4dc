"""The command in surroundings that machines of users have: behind a proxy, for example."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.engine.test_proxies import BOTH_CASES
from tests.trials.emulate.clusters import needs_root
from tests.tune.jobs import Job, ended

SEARCH = (
    *("--model", "mlp", "--trials", "3", "--steps", "5", "--warmup", "2", "--rounds", "1"),
    *("--simulator", "analytic", "--out", "runs/one", "--data", "data"),
)

Start = Callable[..., Job]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    jobs: list[Job] = []

    def started(*arguments: str, **settings: str) -> Job:
        before = ("env", *(f"{name}={value}" for name, value in settings.items()))
        jobs.append(Job(tmp_path, *arguments, before=before))
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
