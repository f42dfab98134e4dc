"""Times transfers between devices of one process."""

from __future__ import annotations

import math

import pytest

from autosync.engine.tensorflow.placement import Placement
from autosync.engine.tensorflow.servers import use_logical_devices
from autosync.engine.tensorflow.transfer import LARGEST_FLOW_BYTES, Transfers
from autosync.errors import ClusterError
from tests import cases

A, B, C = "node0/cpu:0", "node0/cpu:1", "node0/cpu:2"


@pytest.fixture(scope="module")
def transfers() -> Transfers:
    use_logical_devices(3)
    return Transfers(Placement.in_one_process(cases.local_cluster(3)))


def test_flows_of_any_sizes_are_timed(transfers: Transfers) -> None:
    call = transfers.flows([(A, B), (A, C), (C, B)])
    for sizes in ([4, 4, 4], [1 << 20, 1 << 10, 0], [LARGEST_FLOW_BYTES, 2 * LARGEST_FLOW_BYTES, 4]):
        assert 0 < call(sizes) < math.inf


@pytest.mark.parametrize("count", [0, 1, 4])
def test_hops_are_timed(transfers: Transfers, count: int) -> None:
    assert 0 < transfers.hops(A, B, count)() < math.inf


@pytest.mark.parametrize("count", [1, 9])
def test_messages_are_timed(transfers: Transfers, count: int) -> None:
    assert 0 < transfers.messages(A, C, count)() < math.inf


def test_copies_are_timed(transfers: Transfers) -> None:
    assert 0 < transfers.copies(B, 1 << 16, 3)() < math.inf


def test_a_device_that_is_not_placed_is_named(transfers: Transfers) -> None:
    with pytest.raises(ClusterError, match="The cluster has no device 'node1/cpu:0'"):
        transfers.hops(A, "node1/cpu:0", 1)
