"""Nodes that leave, hang and come back under the real command, on a real Ray cluster of emulated hosts."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autosync.dataset import RecordStore
from autosync.spec import RuntimeRecord
from tests.trials.emulate.clusters import needs_root
from tests.tune.jobs import Job, ended
from trials.cluster.racks import parse_emulation
from trials.emulate import Emulated, down, find, kill_node, restart_node, set_link, up

pytestmark = needs_root

TRIALS = 6
COMMAND = (
    *("--model", "mlp", "--trials", str(TRIALS), "--rounds", "1", "--steps", "60", "--warmup", "2", "--no-probe"),
    *("--simulator", "analytic"),
)
WHERE = ("--out", "runs/one", "--data", "data")

SOON_MISSED = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "3000",
    "RAY_health_check_failure_threshold": "3",
}
"""Ray takes half a minute to notice a missing node; seconds are enough for these tests."""

Start = Callable[..., Job]


@pytest.fixture(scope="module")
def name() -> Iterator[str]:
    """A cluster of three nodes; each test leaves all of them running."""
    made = f"f{os.getpid()}"
    with pytest.MonkeyPatch.context() as patch:
        for setting, value in SOON_MISSED.items():
            patch.setenv(setting, value)
        up(made, parse_emulation("3x1gbit"))
        yield made
        down(made)


@pytest.fixture
def start(tmp_path: Path, name: str) -> Iterator[Start]:
    jobs: list[Job] = []

    def started(*arguments: str) -> Job:
        jobs.append(Job(tmp_path, *COMMAND, *WHERE, *arguments, cluster=name))
        return jobs[-1]

    yield started
    for job in jobs:
        job.end()


def cluster(name: str) -> Emulated:
    cluster = find(name)
    assert cluster is not None
    return cluster


def trials_of(directory: Path) -> list[RuntimeRecord]:
    records = RecordStore(directory / "data").read()
    return [record for record in records if record.sequence is not None or record.outcome == "lost"]


def check_all_ran(directory: Path) -> list[RuntimeRecord]:
    """Check that every trial, lost ones included, has one record that counts; return the lost records."""
    records = trials_of(directory)
    counted = Counter((record.strategy.digest, record.purpose) for record in records if record.outcome != "lost")
    assert (len(counted), set(counted.values())) == (TRIALS, {1})
    lost = [record for record in records if record.outcome == "lost"]
    assert {(record.strategy.digest, record.purpose) for record in lost} <= counted.keys()
    return lost


@pytest.mark.thorough
def test_a_node_killed_in_mid_search_is_replaced_by_a_spare_one(start: Start, name: str, tmp_path: Path) -> None:
    job = start("--nodes-per-trial", "2")
    job.wait_for(f"   2/{TRIALS}")
    kill_node(cluster(name), "node1")
    printed = ended(job, 0, looking_for_processes=False)
    restart_node(cluster(name), "node1")
    assert "Node 10.77.0.3 will replace 10.77.0.2." in printed
    lost = check_all_ran(tmp_path)
    assert lost
    assert "node1 has died" in lost[0].reason or "node1 at 10.77.0.2 has left the cluster" in lost[0].reason
    last = trials_of(tmp_path)[-1]
    assert last.outcome in ("ok", "stopped"), "on the new nodes trials are timed"
    assert [node.address for node in last.cluster.nodes] == ["10.77.0.1", "10.77.0.3"]


@pytest.mark.thorough
def test_a_node_cut_off_costs_one_trial_and_the_search_waits_for_it(start: Start, name: str, tmp_path: Path) -> None:
    job = start("--trial-time-limit", "15", "--node-wait", "120")
    job.wait_for(f"   2/{TRIALS}")
    set_link(cluster(name), "node2", False)
    job.wait_for("Waiting up to 120 s for a node to return or to join ...")
    kill_node(cluster(name), "node2")
    set_link(cluster(name), "node2", True)
    restart_node(cluster(name), "node2")
    ended(job, 0, looking_for_processes=False)
    lost = check_all_ran(tmp_path)
    assert lost
    assert max(record.total_seconds for record in lost) < 15 + 30 + 15, (
        "limit, grace and the time to ask who is missing"
    )


@pytest.mark.thorough
def test_when_told_to_shrink_the_search_begins_anew_on_the_nodes_left(start: Start, name: str, tmp_path: Path) -> None:
    enough = 9  # for two earlier trials, and every baseline again
    job = start("--on-node-loss", "shrink", "--trials", str(enough))
    job.wait_for(f"   2/{enough}")
    kill_node(cluster(name), "node2")
    printed = ended(job, 0, looking_for_processes=False)
    restart_node(cluster(name), "node2")
    assert "Too few nodes are left for this search; it starts again on the remaining nodes." in printed
    records = [record for record in trials_of(tmp_path) if record.outcome != "lost"]
    assert len(records) == enough
    assert [len(record.cluster.nodes) for record in records][:2] == [3, 3]
    assert len(records[-1].cluster.nodes) == 2


@pytest.mark.thorough
def test_after_the_death_of_the_head_the_search_goes_on_on_a_new_cluster(
    start: Start, name: str, tmp_path: Path
) -> None:
    job = start()
    job.wait_for(f"   3/{TRIALS}")
    down(name)
    assert job.status() != 0
    before = trials_of(tmp_path)
    assert len(before) >= 3
    up(name, parse_emulation("3x1gbit"))
    ended(start("--resume"), 0, looking_for_processes=False)
    check_all_ran(tmp_path)
    assert trials_of(tmp_path)[: len(before)] == before
