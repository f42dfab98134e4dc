"""Paced workers that are processes on Ray."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autosync.errors import SpecError
from autosync.spec import ClusterSpec, DeviceProfile, Pace
from tests.contracts.test_backend_contract import TRIALS_A_CONNECTION, WORKERS, on_ray, ray_cluster, wanted
from trials.clock import WallClock

__all__ = ["ray_cluster"]


def test_workers_on_ray_keep_their_pace_over_one_connection_after_another(ray_cluster: ClusterSpec) -> None:
    """The lateness of releases depends on the machine, and is not tested."""
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


def test_passes_on_ray_follow_a_devices_profile_and_one_that_does_not_fit_is_refused(ray_cluster: ClusterSpec) -> None:
    cluster = replace(ray_cluster, nodes=tuple(replace(node, pace=Pace(10.0)) for node in ray_cluster.nodes))
    device = DeviceProfile("H100", {"driver": "570"}, 1, "float32", "2026-11-20", 0.001, 0.002, {})
    with pytest.raises(
        SpecError, match="The profile of 'H100' does not fit model 'mlp': it was measured with batches of"
    ):
        on_ray(cluster, profile=device)
    plain = on_ray(cluster, clock=WallClock())
    plain.close()
    ready = {variable.name: 0.002 for variable in plain.model.variables}
    fitting = replace(device, batch_size=plain.model.batch_size, ready_seconds=ready)
    made = on_ray(cluster, clock=WallClock(), profile=fitting)
    try:
        record = made.run(wanted(made))
    finally:
        made.close()
    assert record.model.device_profile == fitting
    assert record.model.digest != plain.model.digest
    assert record.pace is not None
    assert record.pace.requested_seconds == pytest.approx((0.03,) * WORKERS)
