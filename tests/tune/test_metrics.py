"""Metrics as Prometheus would fetch them, from a real node of Ray."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Iterator

import pytest
import ray

from autosync.tune.curves import METRICS, SearchMetrics
from tests.tune.records import record

EXPORTED_WITHIN_SECONDS = 60.0


@pytest.fixture
def exporting() -> Iterator[str]:
    """The address at which the node exports its metrics."""
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    node = ray.nodes()[0]
    yield f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics"
    ray.shutdown()


def fetched(address: str) -> dict[str, float]:
    """The search's metrics with their tags, by name."""
    text = urllib.request.urlopen(address, timeout=10).read().decode()
    lines = [line for line in text.splitlines() if line.startswith("ray_autosync_")]
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


def values(exported: dict[str, float], name: str, tag: str = "") -> set[float]:
    return {value for line, value in exported.items() if line.startswith(f"ray_{name}") and tag in line}


@pytest.mark.thorough
def test_a_nodes_exported_metrics_tell_how_the_search_stands(exporting: str) -> None:
    metrics = SearchMetrics("mlp", "run-1", lambda: 2, [record("byteps", [0.5])])
    metrics(record("parameter_server", [0.2, 0.3, 0.4]))
    metrics(record("all_reduce_25mb", outcome="lost"))
    deadline = time.monotonic() + EXPORTED_WITHIN_SECONDS
    while not values(exported := fetched(exporting), "autosync_lanes"):
        assert time.monotonic() < deadline, f"nothing was exported; known: {sorted(exported)}"
        time.sleep(1.0)
    assert values(exported, "autosync_step_seconds", 'model="mlp"') == {0.3}
    assert values(exported, "autosync_best_step_seconds", 'run="run-1"') == {0.3}
    assert values(exported, "autosync_best_baseline_step_seconds") == {0.3}
    assert values(exported, "autosync_trials", 'outcome="ok"') == {1.0}
    assert values(exported, "autosync_trials", 'outcome="lost"') == {1.0}
    assert values(exported, "autosync_lanes") == {2.0}
    assert {line.partition("{")[0] for line in exported} <= {f"ray_{name}" for name in METRICS} | {
        "ray_autosync_trials_total"
    }
