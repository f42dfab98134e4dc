"""A search leaves out strategies that its engine refuses, with the reason, and asks the engine about the overlap."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from autosync.baselines import BASELINES, PRIORITY_BASELINES
from autosync.baselines.tuned import all_reduce_grid
from autosync.tune.grid import time_grid
from autosync.tune.refusals import can_overlap, refusals_of
from tests.tune.pretend import CLUSTER, MODEL, PROTOCOL, PretendBackend, pretended_job

STRATEGIES = {name: baseline(MODEL, CLUSTER) for name, baseline in {**BASELINES, **PRIORITY_BASELINES}.items()}


def test_a_refused_baseline_is_named_with_the_reason() -> None:
    fewer = replace(STRATEGIES["p3"], replicas=STRATEGIES["p3"].replicas[:1])
    assert refusals_of("pytorch", {"p3": STRATEGIES["p3"], "fewer": fewer}, MODEL, CLUSTER) == {
        "fewer": "fewer is left out, because the PyTorch engine does not carry it out: it has 1 replicas on a cluster "
        f"of {len(CLUSTER.replica_devices)}."
    }
    assert refusals_of("pytorch", {name: STRATEGIES[name] for name in BASELINES}, MODEL, CLUSTER) == {}


@pytest.mark.parametrize(("framework", "answer"), [("tensorflow", False), ("pytorch", True)])
def test_the_engine_decides_whether_steps_can_overlap(framework: str, answer: bool) -> None:
    assert can_overlap(framework, MODEL, CLUSTER) is answer


def test_a_grid_is_timed_with_an_overlap_where_the_engine_can(tmp_path: Path) -> None:
    records = time_grid(pretended_job(tmp_path, PretendBackend(), framework="pytorch"), [], PROTOCOL)
    overlapped = [timing for timing in records if timing.strategy.overlap_next_forward]
    assert len(overlapped) == len(all_reduce_grid(MODEL, CLUSTER))
    assert all(timing.label.endswith(", overlapped") for timing in overlapped)
