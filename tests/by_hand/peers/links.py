"""What a star's links carry: which rates are set, what plain TCP makes of them, and bytes counted at interfaces."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from autosync.spec import ClusterSpec, Figure
from tests.by_hand.peers.crew import Crew
from trials.cluster.file import read_cluster_file
from trials.cluster.racks import parse_emulation, star_of
from trials.emulate import Host
from trials.probe.flows import ends_of, fair_rates

__all__ = ["busiest_bytes", "carried", "carried_share", "cluster_of", "ring_goodput", "star"]

UNSHAPED = "unshaped"
FLOWS_BYTES, FLOWS_ROUNDS = 16_000_000, 3


def cluster_of(text: str) -> ClusterSpec:
    """The cluster that a file states, or the star that `text` names."""
    return read_cluster_file(text) if text.endswith((".yaml", ".yml")) else star(text)


def star(text: str) -> ClusterSpec:
    """The star that `4x200mbit` names; `4xunshaped` has links that are as fast as this machine."""
    count = re.fullmatch(rf"(\d{{1,3}})x{UNSHAPED}", text)
    if not count:
        return parse_emulation(text)
    cluster = star_of(int(count[1]), 10.0)
    links = tuple(replace(link, gbit_per_s=Figure(link.gbit_per_s.value, "assumed")) for link in cluster.links)
    return replace(cluster, links=links)


def ring_goodput(hosts: Sequence[Host], flow_bytes: int = FLOWS_BYTES) -> float:
    """Bytes a second of a plain TCP flow from each host to the next, all at once as in a ring; the median."""
    return statistics.median(_ring_flows(hosts, flow_bytes))


def carried_share(cluster: ClusterSpec, hosts: Sequence[Host], flow_bytes: int = FLOWS_BYTES) -> float:
    """The share of the links' rates that such flows get as payload; the median, rates being shared fairly."""
    names = [node.name for node in cluster.nodes]
    routes = [
        [ends_of(link) for link in cluster.route(source, target)]
        for source, target in zip([names[-1], *names[:-1]], names, strict=True)
    ]
    fair = fair_rates(routes, {ends_of(link): link.bytes_per_second for link in cluster.links})
    return statistics.median(flow / rate for flow, rate in zip(_ring_flows(hosts, flow_bytes), fair, strict=True))


def _ring_flows(hosts: Sequence[Host], flow_bytes: int) -> list[float]:
    """Bytes a second of the flow to each host from the one before it, the median of all rounds."""
    with Crew(hosts, "tests.by_hand.peers.tcp_member") as crew:
        ports = [each["port"] for each in crew.ask("listen")]
        ends = [{"host": host.address, "port": port} for host, port in zip(hosts, ports, strict=True)]
        crew.ask_each("connect", [*ends[1:], ends[0]])
        rounds = [crew.ask("flow", bytes=flow_bytes) for _ in range(1 + FLOWS_ROUNDS)][1:]
    return [
        flow_bytes / statistics.median(each["seconds"] for each in of_flow) for of_flow in zip(*rounds, strict=True)
    ]


def carried(hosts: Sequence[Host]) -> list[tuple[int, int]]:
    """Bytes that each host's interface has received and sent so far, all headers included."""
    return [_interface_bytes(host) for host in hosts]


def busiest_bytes(before: Sequence[tuple[int, int]], after: Sequence[tuple[int, int]]) -> int:
    """The most bytes that crossed one direction of one link between two readings of `carried`."""
    return max(new - old for one, two in zip(before, after, strict=True) for old, new in zip(one, two, strict=True))


def _interface_bytes(host: Host) -> tuple[int, int]:
    assert host.init is not None
    for line in Path(f"/proc/{host.init.pid}/net/dev").read_text(encoding="ascii").splitlines():
        name, _, counts = line.partition(":")
        if name.strip() == "eth0":
            fields = counts.split()
            return int(fields[0]), int(fields[8])
    return 0, 0
