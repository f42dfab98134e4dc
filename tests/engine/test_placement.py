"""TensorFlow's names for a cluster's devices."""

from __future__ import annotations

import pytest

from autosync.engine.tensorflow.placement import Placement
from autosync.errors import ClusterError
from tests.cases import gpu_cluster, local_cluster, star_cluster


def test_in_one_process_every_worker_is_a_logical_device():
    placement = Placement.in_one_process(local_cluster(3))
    assert [placement.name(f"node0/cpu:{index}") for index in range(3)] == ["/CPU:0", "/CPU:1", "/CPU:2"]
    assert placement.gateway("node0") == "/CPU:0"


def test_workers_are_tasks_numbered_through_the_nodes():
    placement = Placement.on_workers(star_cluster(nodes=2, workers=2))
    assert placement.name("node1/cpu:1") == "/job:worker/replica:0/task:3/device:CPU:0"
    assert placement.gateway("node1") == placement.name("node1/cpu:0") == "/job:worker/replica:0/task:2/device:CPU:0"
    assert placement.node("node1/cpu:1") == "node1"


def test_a_nodes_gpus_belong_to_its_one_worker():
    placement = Placement.on_workers(gpu_cluster(nodes=2, gpus=4))
    assert placement.name("node1/gpu:3") == "/job:worker/replica:0/task:1/device:GPU:3"
    assert placement.gateway("node1") == "/job:worker/replica:0/task:1/device:CPU:0"


def test_an_unknown_device_is_named_with_the_known_devices():
    placement = Placement.in_one_process(local_cluster(2))
    with pytest.raises(ClusterError, match=r"has no device 'node0/gpu:0'; its devices are node0/cpu:0, node0/cpu:1\."):
        placement.name("node0/gpu:0")
