"""IPv6 addresses are refused on every input, in a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from autosync.errors import AutosyncError, ClusterError
from tests.trials.test_discovery import node
from trials.cluster.addresses import is_ipv6
from trials.cluster.discovery import cluster_from_ray_nodes
from trials.cluster.file import read_cluster_file
from trials.cluster.resource_spec import cluster_file_text
from trials.workers.local_ray import RayStart, check_workers, start_ray

IPV6 = ("::1", "[::1]", "fd00::1", "2001:db8:0:0:0:0:0:1", "::ffff:10.0.0.1", "fe80::1%eth0")

TO_JOIN = (*IPV6, "[::1]:6379", "ray://[fd00::1]:10001", "[fe80::1%eth0]:6379", "::1:6379")

RULE = "autosync reaches nodes by IPv4 only, and "


@pytest.mark.parametrize("address", IPV6)
def test_a_cluster_file_with_an_ipv6_address_is_refused(address: str, tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(f"nodes: [{{address: 10.0.0.1}}, {{address: '{address}'}}]")
    with pytest.raises(ClusterError) as refusal:
        read_cluster_file(tmp_path / "cluster.yaml")
    told = f"nodes[1].address: {RULE}{address!r} is an IPv6 address; give an IPv4 address."
    assert str(refusal.value).endswith(told)


def test_a_resource_file_with_an_ipv6_address_is_refused(tmp_path: Path) -> None:
    (tmp_path / "resource_spec.yml").write_text("nodes: [{address: 'fd00::1', gpus: [0]}]")
    with pytest.raises(AutosyncError, match=r"nodes\[0\].address: autosync reaches nodes by IPv4 only"):
        cluster_file_text(tmp_path / "resource_spec.yml")


@pytest.mark.parametrize("address", TO_JOIN)
def test_an_ipv6_address_to_join_is_refused_before_ray_is_asked(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    remedy = (
        "is an IPv6 address; start Ray with an IPv4 address as --node-ip-address, and give that address with its port."
    )
    for attempt in (lambda: check_workers(None, address), lambda: start_ray(RayStart(address))):
        with pytest.raises(ClusterError) as refusal:
            attempt()
        assert str(refusal.value) == f"{RULE}--address {address!r} {remedy}"
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(ClusterError) as refusal:
        check_workers(2, None)
    assert str(refusal.value) == f"{RULE}RAY_ADDRESS {address!r} {remedy}"


def test_a_ray_cluster_whose_nodes_have_ipv6_addresses_is_refused() -> None:
    with pytest.raises(ClusterError, match="Ray knows a node by the IPv6 address 'fd00::2'; start Ray there with an"):
        cluster_from_ray_nodes([node("10.0.0.1", head=True), node("fd00::2")])


@pytest.mark.parametrize("address", ["10.0.0.1", "10.0.0.1:6379", "head", "head:6379", "ray://head:10001", "auto"])
def test_other_addresses_are_not_ipv6(address: str) -> None:
    assert not is_ipv6(address)
