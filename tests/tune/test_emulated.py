"""`--emulate` and lanes under the real command: a cluster is made, searched, and removed."""

from __future__ import annotations

import json
import shlex
from itertools import pairwise
from pathlib import Path

import pytest

from autosync.dataset import RecordStore
from autosync.spec import ClusterSpec, RuntimeRecord
from tests.trials.emulate.clusters import needs_root
from tests.tune.jobs import Job, ended

pytestmark = needs_root

TRIALS = 60
# Tune starts an actor for a second trial, which takes seconds, and longer in parallel with other tests. If the first
# trial ends before that, the second gets the first one's actor. So trials are long here, and there are more of them
# than two lanes can run at once.
COMMAND = (
    *("--model", "mlp", "--trials", str(TRIALS), "--rounds", "2", "--steps", "500", "--warmup", "2"),
    *("--nodes-per-trial", "2", "--simulator", "analytic"),
)
WHERE = ("--emulate", "4x200mbit", "--out", "runs/one", "--data", "data")


def trials_of(directory: Path) -> list[RuntimeRecord]:
    return [record for record in RecordStore(directory / "data").read() if record.purpose != "remeasure"]


@pytest.mark.thorough
def test_trials_run_side_by_side_until_ctrl_c_takes_the_cluster_down_and_says_how_to_make_it_anew(
    tmp_path: Path,
) -> None:
    job = Job(tmp_path, *COMMAND, *WHERE)
    job.wait_for(f"   1/{TRIALS}")
    job.wait_until(lambda: side_by_side(lanes_of(trials_of(tmp_path))), "two trials side by side", look_seconds=1.0)
    job.press_ctrl_c()
    printed = ended(job, 130)
    assert job.of_its_cluster() == []
    again = shlex.split(printed.rpartition("Resume with: autosync tune ")[2])
    assert again == [*COMMAND, *WHERE, "--resume"]
    run = json.loads((tmp_path / "runs/one/run.json").read_text())
    links = ClusterSpec.from_json(run["cluster"]).links
    assert {link.gbit_per_s.source for link in links if link.source != link.target} == {"measured"}
    assert json.loads((tmp_path / "runs/one/probe.json").read_text())["seconds"] > 0
    check_lanes(printed, trials_of(tmp_path))


def lanes_of(records: list[RuntimeRecord]) -> dict[tuple[str, ...], list[tuple[float, float]]]:
    """The start and end of each trial, in order, by the addresses of its nodes."""
    lanes: dict[tuple[str, ...], list[tuple[float, float]]] = {}
    for trial in sorted(records, key=lambda record: record.started_at):
        nodes = tuple(node.address for node in trial.cluster.nodes)
        lanes.setdefault(nodes, []).append((trial.started_at, trial.started_at + trial.total_seconds))
    return lanes


def side_by_side(lanes: dict[tuple[str, ...], list[tuple[float, float]]]) -> bool:
    """Whether a trial began while another ran."""
    times = sorted(time for times in lanes.values() for time in times)
    return any(first[1] > following[0] for first, following in pairwise(times))


def check_lanes(printed: str, records: list[RuntimeRecord]) -> None:
    """There are two lanes of two nodes each, and never two trials on one."""
    assert "2 trials run at once, each on 2 nodes of its own." in printed
    lanes = lanes_of(records)
    assert lanes.keys() == {("10.77.0.1", "10.77.0.2"), ("10.77.0.3", "10.77.0.4")}
    for times in lanes.values():
        assert all(first[1] <= following[0] for first, following in pairwise(times)), "a lane ran two at once"
    assert len({record.cluster.digest for record in records}) == 1
