"""The links of a cluster: configured rates, the goodput of plain TCP, and bytes counted at interfaces."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from autosync.spec import ClusterSpec, Figure
from studies.by_hand.peers.host_processes import HostProcesses
from trials.cluster.file import read_cluster_file
from trials.cluster.racks import parse_emulation, star_of
from trials.emulate import Host
from trials.probe.flows import ends_of, fair_rates

__all__ = ["busiest_bytes", "cluster_of", "goodput_share", "interface_bytes", "ring_goodput", "star"]

UNSHAPED = "unshaped"
FLOWS_BYTES, FLOWS_ROUNDS = 16_000_000, 3


def cluster_of(text: str) -> ClusterSpec:
    """Return the cluster in a file, or the star that `text` names."""
    return read_cluster_file(text) if text.endswith((".yaml", ".yml")) else star(text)


def star(text: str) -> ClusterSpec:
    """Return the star that a text such as `4x200mbit` names; the links of `4xunshaped` are as fast as this machine."""
    count = re.fullmatch(rf"(\d{{1,3}})x{UNSHAPED}", text)
    if not count:
        return parse_emulation(text)
    cluster = star_of(int(count[1]), 10.0)
    links = tuple(replace(link, gbit_per_s=Figure(link.gbit_per_s.value, "assumed")) for link in cluster.links)
    return replace(cluster, links=links)


def ring_goodput(hosts: Sequence[Host], flow_bytes: int = FLOWS_BYTES) -> float:
    """Return the median bytes per second of plain TCP flows from each host to the next, all at once as in a ring."""
    return statistics.median(_ring_flows(hosts, flow_bytes))


def goodput_share(cluster: ClusterSpec, hosts: Sequence[Host], flow_bytes: int = FLOWS_BYTES) -> float:
    """Return the median share of their fair rate that the flows of `ring_goodput` reach as payload."""
    names = [node.name for node in cluster.nodes]
    routes = [
        [ends_of(link) for link in cluster.route(source, target)]
        for source, target in zip([names[-1], *names[:-1]], names, strict=True)
    ]
    fair = fair_rates(routes, {ends_of(link): link.bytes_per_second for link in cluster.links})
    return statistics.median(flow / rate for flow, rate in zip(_ring_flows(hosts, flow_bytes), fair, strict=True))


def _ring_flows(hosts: Sequence[Host], flow_bytes: int) -> list[float]:
    """Return the bytes per second of the flow from the previous host to each host, medians over rounds."""
    with HostProcesses(hosts, "studies.by_hand.peers.tcp_member") as crew:
        ports = [reply["port"] for reply in crew.ask("listen")]
        ends = [{"host": host.address, "port": port} for host, port in zip(hosts, ports, strict=True)]
        crew.ask_each("connect", [*ends[1:], ends[0]])
        rounds = [crew.ask("flow", bytes=flow_bytes) for _ in range(1 + FLOWS_ROUNDS)][1:]
    return [
        flow_bytes / statistics.median(reply["seconds"] for reply in of_flow) for of_flow in zip(*rounds, strict=True)
    ]


def interface_bytes(hosts: Sequence[Host]) -> list[tuple[int, int]]:
    """Return the bytes that each host's interface has received and sent so far, including all headers."""
    return [_interface_bytes(host) for host in hosts]


def busiest_bytes(before: Sequence[tuple[int, int]], after: Sequence[tuple[int, int]]) -> int:
    """Return the most bytes in one direction of one link between two readings of `carried`."""
    pairs = [pair for earlier, later in zip(before, after, strict=True) for pair in zip(earlier, later, strict=True)]
    return max(new - old for old, new in pairs)


def _interface_bytes(host: Host) -> tuple[int, int]:
    assert host.init is not None
    for line in Path(f"/proc/{host.init.pid}/net/dev").read_text(encoding="ascii").splitlines():
        name, _, counts = line.partition(":")
        if name.strip() == "eth0":
            fields = counts.split()
            return int(fields[0]), int(fields[8])
    return 0, 0
