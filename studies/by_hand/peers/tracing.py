"""Traces the operations of each server by TensorFlow's profiler, and reads them into plain tuples."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

__all__ = ["Operation", "trace_servers"]

Operation = tuple[str, int, int]
"""Name, start and end; nanoseconds since 1970."""

SETTLE_SECONDS = 0.5
MOST_SECONDS = 60


def trace_servers(run: Callable[[], None], profilers: Sequence[str], folder: str) -> list[list[Operation]]:
    """Call `run` while the servers at `profilers` are trace_servers; return each server's operations in order of start.

    The profiler traces for a fixed time. To choose that time, `run` is timed once before, without tracing.
    """
    import tensorflow as tf

    begin = time.perf_counter()
    run()
    seconds = min(MOST_SECONDS, time.perf_counter() - begin)
    late = threading.Timer(SETTLE_SECONDS, run)
    late.start()
    addresses = ",".join(f"grpc://{address}" for address in profilers)
    tf.profiler.experimental.client.trace(addresses, folder, int((seconds * 1.3 + 2 * SETTLE_SECONDS) * 1e3))
    late.join()
    by_host = {path.name: path for path in Path(folder).rglob("*.xplane.pb")}
    return [_operations(by_host[f"{address.replace(':', '_')}.xplane.pb"]) for address in profilers]


def _operations(file: Path) -> list[Operation]:
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    space = xplane_pb2.XSpace.FromString(file.read_bytes())
    planes = {plane.name: plane for plane in space.planes}
    start = _start_ns(planes["Task Environment"])
    plane, operations = planes["/host:CPU"], []
    for line in plane.lines:
        for event in line.events:
            name = plane.event_metadata[event.metadata_id].name
            if "/" in name and ":" in name.rpartition("/")[2]:  # names of operations end in `:Kind`
                begin = start + line.timestamp_ns + event.offset_ps // 1000
                operations.append((name, begin, begin + event.duration_ps // 1000))
    return sorted(operations, key=lambda operation: operation[1])


def _start_ns(plane: Any) -> int:
    for stat in plane.stats:
        if plane.stat_metadata[stat.metadata_id].name == "profile_start_time":
            return int(stat.uint64_value)
    raise AssertionError("The profiler's file must have a start time, but has none.")
