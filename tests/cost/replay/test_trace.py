"""Traces contain every portion of the step, in the format of Chrome and Perfetto."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from autosync.baselines import BASELINES
from autosync.cost.replay import Replay, side_by_side, step_of
from tests import cases

MODEL, CLUSTER = cases.mlp_model(), cases.star_cluster()


def trace(baseline: str = "balanced_parameter_server") -> dict[str, Any]:
    return json.loads(json.dumps(Replay().trace(MODEL, CLUSTER, BASELINES[baseline](MODEL, CLUSTER))))


def complete(document: dict[str, Any], process: int = 1) -> list[dict[str, Any]]:
    return [event for event in document["traceEvents"] if event["ph"] == "X" and event["pid"] == process]


@pytest.mark.parametrize("baseline", ["balanced_parameter_server", "all_reduce_per_variable", "parallax"])
def test_a_trace_shows_for_how_long_each_resource_is_busy(baseline: str) -> None:
    strategy = BASELINES[baseline](MODEL, CLUSTER)
    found = Replay().figures(MODEL, CLUSTER, strategy)
    busy: dict[int, float] = {}
    for event in complete(trace(baseline)):
        busy[event["tid"]] = busy.get(event["tid"], 0.0) + event["dur"] * 1e-6
    for resource, share in enumerate(found.utilization):
        assert busy.get(resource, 0.0) == pytest.approx(share * found.step_seconds, rel=0.01, abs=1e-5)


def test_events_on_one_thread_never_overlap() -> None:
    by_thread: dict[int, list[tuple[float, float]]] = {}
    for event in complete(trace()):
        by_thread.setdefault(event["tid"], []).append((event["ts"], event["ts"] + event["dur"]))
    assert len(by_thread) > 8
    for spans in by_thread.values():
        assert all(before[1] <= after[0] + 1e-3 for before, after in pairwise(sorted(spans)))


def test_a_trace_names_its_threads_and_the_variables_sent() -> None:
    document = trace()
    threads = {event["args"]["name"] for event in document["traceEvents"] if event["name"] == "thread_name"}
    assert "link node0 > switch" in threads
    assert "cores of node3" in threads
    kinds = {event["cat"] for event in complete(document)}
    assert kinds == {"forward", "backward", "push", "work", "send"}
    pushed = [event for event in complete(document) if event["cat"] == "push"]
    sent = {name for event in pushed for name in event["args"]["variables"]}
    assert sent == {variable.name for variable in MODEL.variables}
    last = max(event["ts"] + event["dur"] for event in complete(document))
    step = step_of(MODEL, CLUSTER, BASELINES["balanced_parameter_server"](MODEL, CLUSTER))
    assert last <= step.seconds(Replay().coefficients) * 1e6 + 1


def test_a_measured_trace_stands_beside_the_predicted_one_from_the_same_beginning() -> None:
    measured = {
        "traceEvents": [
            {"ph": "M", "pid": 0, "name": "process_name", "args": {"name": "worker 0"}},
            {"ph": "M", "pid": 3, "name": "process_name", "args": {"name": "worker 3"}},
            {"ph": "X", "pid": 0, "tid": 1, "ts": 999.0, "dur": 1.0, "name": "before", "cat": "other"},
            {"ph": "X", "pid": 0, "tid": 1, "ts": 1000.0, "dur": 5.0, "name": "MatMul", "cat": "forward"},
            {"ph": "X", "pid": 3, "tid": 1, "ts": 1010.0, "dur": 5.0, "name": "MatMul", "cat": "forward"},
            {"ph": "C", "pid": 3, "ts": 1020.0, "name": "Mbit/s", "args": {"sent": 1.0, "received": 2.0}},
            {"ph": "X", "pid": 3, "tid": 1, "ts": 3000.0, "dur": 5.0, "name": "after", "cat": "other"},
        ]
    }
    document = side_by_side(trace(), measured, (1000.0, 2000.0))
    assert complete(document, 1) == complete(trace())
    shown = complete(document, 2)
    assert [(event["name"], event["ts"]) for event in shown] == [("MatMul", 0.0), ("MatMul", 10.0)]
    assert shown[0]["tid"] != shown[1]["tid"]
    names = [event["args"]["name"] for event in document["traceEvents"] if event["ph"] == "M" and event["pid"] == 2]
    assert names == ["measured", "worker 0 forward", "worker 3 forward"]
    (counter,) = [event for event in document["traceEvents"] if event["ph"] == "C"]
    assert (counter["name"], counter["pid"], counter["ts"]) == ("worker 3 Mbit/s", 2, 20.0)
