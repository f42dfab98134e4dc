"""Paced workers that are processes on Ray."""

from __future__ import annotations

from dataclasses import replace

from autosync.spec import ClusterSpec, Pace
from tests.contracts.test_backend_contract import TRIALS_A_CONNECTION, WORKERS, on_ray, ray_cluster, wanted
from trials.clock import WallClock

__all__ = ["ray_cluster"]


def test_workers_on_ray_keep_their_pace_over_one_connection_after_another(ray_cluster: ClusterSpec) -> None:
    """How late they are hangs on the machine, and is no part of this."""
    nodes = tuple(replace(node, pace=Pace(0.0, 0.02)) for node in ray_cluster.nodes)
    made = on_ray(replace(ray_cluster, nodes=nodes), clock=WallClock())
    try:
        records = [made.run(wanted(made)) for _ in range(TRIALS_A_CONNECTION + 1)]
    finally:
        made.close()
    for record in records:
        assert record.pace is not None
        assert (record.time, record.numbers, record.pace.requested_seconds) == ("paced", "recorded", (0.02,) * WORKERS)
        assert min(record.pace.achieved_seconds) >= 0.02
        assert min(record.step_seconds) >= 0.02
