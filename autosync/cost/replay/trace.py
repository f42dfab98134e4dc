"""A replayed step as a Chrome trace (open it in Perfetto), alone or next to a measured trace.

Format: "Trace Event Format" of the Chromium project: complete events ("X") and metadata ("M"), times in microseconds.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from autosync.cost.coefficients import ReplayCoefficients
from autosync.cost.replay.step import ReplayedStep

PREDICTED, MEASURED = 1, 2
SHORTEST_US = 1e-3


def predict_trace(step: ReplayedStep, coefficients: ReplayCoefficients) -> dict[str, Any]:
    """The trace of a replay: one process with one thread per used resource, and an event for each portion of a task."""
    events: list[dict[str, Any]] = []
    columns = step.catalogue.places.columns.tolist()
    overhead_us = step.overhead_seconds(coefficients) * 1e6

    def observe(task: int, place: int, begin: float, end: float) -> None:
        resource = columns[place]
        name, kind, about = _describe(step, task)
        at_us, long_us = overhead_us + begin * 1e6, (end - begin) * 1e6
        if long_us > SHORTEST_US:
            events.append(_complete(name, kind, (PREDICTED, resource), (at_us, long_us), about))

    step.timeline(coefficients, observe)
    names = step.resources.names
    used = sorted({event["tid"] for event in events})
    threads = [_metadata("thread_name", PREDICTED, resource, names[resource]) for resource in used]
    return _document([_metadata("process_name", PREDICTED, 0, "predicted"), *threads, *events])


def side_by_side(
    predicted: Mapping[str, Any], measured: Mapping[str, Any], step_us: tuple[float, float]
) -> dict[str, Any]:
    """The predicted and the measured trace in one document, as two processes whose steps begin at 0.

    `step_us` are the begin and end of the step to show, in the measured trace's time. The processes and threads of the
    measured trace become threads of one process; events outside the step are left out.
    """
    begin, end = step_us
    process_names: dict[Any, str] = {}
    thread_names: dict[tuple[Any, Any], str] = {}
    for event in measured["traceEvents"]:
        if event["ph"] == "M" and event["name"] == "process_name":
            process_names[event["pid"]] = event["args"]["name"]
        if event["ph"] == "M" and event["name"] == "thread_name":
            thread_names[event["pid"], event["tid"]] = event["args"]["name"]
    threads: dict[tuple[str, str], int] = {}
    events = []
    for event in measured["traceEvents"]:
        if event["ph"] not in ("X", "C") or not begin <= event["ts"] <= end:
            continue
        process = process_names.get(event["pid"], str(event["pid"]))
        moved = {**event, "ts": event["ts"] - begin, "pid": MEASURED}
        if event["ph"] == "C":
            moved["name"] = f"{process} {event['name']}"
        else:
            thread = thread_names.get((event["pid"], event.get("tid")), event.get("cat") or str(event.get("tid")))
            moved["tid"] = threads.setdefault((process, thread), len(threads))
        events.append(moved)
    named = [_metadata("thread_name", MEASURED, tid, " ".join(names)) for names, tid in threads.items()]
    about = [_metadata("process_name", MEASURED, 0, "measured"), *named]
    return _document([*predicted["traceEvents"], *about, *events])


def _describe(step: ReplayedStep, task: int) -> tuple[str, str, dict[str, Any]]:
    """A task's name, kind and further arguments."""
    graph, kind = step.graph, step.graph.kind(task)
    number = task % (graph.passes // graph.apart)
    if kind == "forward":
        return kind, kind, {"from": graph.reads[number]} if graph.overlaps else {}
    if kind == "backward":
        return kind, kind, {"until": float(graph.boundaries[number - len(graph.reads)])}
    names = graph.variables(task)
    label = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
    return f"{kind} {label}", kind, {"variables": list(names)}


def _complete(
    name: str, kind: str, place: tuple[int, int], time_us: tuple[float, float], about: dict[str, Any]
) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": name,
        "cat": kind,
        "pid": place[0],
        "tid": place[1],
        "ts": time_us[0],
        "dur": time_us[1],
        "args": about,
    }


def _metadata(kind: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": {"name": name}}


def _document(events: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {"traceEvents": list(events), "displayTimeUnit": "ms"}
