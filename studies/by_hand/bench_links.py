"""The share of their configured rate that emulated links reach, and the processor cost, by the size of packets.

    python -m studies.by_hand.bench_links --packets 1500,9000 4x200mbit 4x1gbit topologies/two_racks.yaml

Needs root. For each cluster and size of packets, in turns, the cluster is emulated again with a TensorFlow server in
each host, and 3 MB are sent along every route of a pattern at once. The patterns are: from the first node to the last,
between these two in both directions, and from each node to the next as in a ring. A call ends when all data has
arrived. `ideal` is the time at a fair share of the links' rates (`trials.probe.flows`), and `of it` the share of that
rate that was reached. Medians with their 95 % interval are over the calls of all turns. `packets` is the share of all
processors' time that the kernel spent on soft interrupts, which are mostly for packets; this time includes building the
functions that send. `again` is the share of the TCP segments that were retransmitted.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

import click

from autosync.spec import ClusterSpec, median_interval
from studies.by_hand.peers.engine import start_engine
from studies.by_hand.peers.links import cluster_of
from studies.by_hand.peers.processors import jiffies
from trials.emulate import Emulated, emulated, network
from trials.emulate import network as shaping
from trials.probe.flows import ends_of, fair_rates

FLOW_BYTES = 3_000_000
Route = tuple[str, str]


@dataclass
class FlowTimes:
    """Measurements of one pattern over all turns."""

    seconds: list[float] = field(default_factory=list)
    """Seconds of each call."""
    jiffies: int = 0
    """Jiffies of all processors."""
    on_packets: int = 0
    """Jiffies on soft interrupts."""
    segments: int = 0
    """TCP segments sent."""
    again: int = 0
    """TCP segments retransmitted."""


@click.command()
@click.argument("clusters", nargs=-1, required=True)
@click.option(
    "--packets", default=str(shaping.FRAME_BYTES), show_default=True, help="Sizes in bytes, separated by commas."
)
@click.option("--turns", default=3, show_default=True)
@click.option("--calls", default=30, show_default=True, help="Calls of each pattern in a turn.")
def main(clusters: tuple[str, ...], packets: str, turns: int, calls: int) -> None:
    """Send along the links of CLUSTERS (4x200mbit, or a cluster file)."""
    sizes = [int(size) for size in packets.split(",")]
    for text in clusters:
        cluster = cluster_of(text)
        patterns = _patterns([node.name for node in cluster.nodes])
        times = {(pattern, size): FlowTimes() for pattern in patterns for size in sizes}
        for _ in range(turns):
            for size in sizes:
                with (
                    _packets_of(size),
                    emulated("links", cluster, start_ray=False) as made,
                    start_engine(made) as engine,
                ):
                    for pattern, routes in patterns.items():
                        devices = {device.node: str(device) for device in engine.cluster.server_devices}
                        pairs = [(devices[source], devices[target]) for source, target in routes]
                        with _count_into(made, times[pattern, size]) as into:
                            into.seconds += engine.flow_seconds(pairs, FLOW_BYTES, calls)
        _print(text, cluster, patterns, times)


def _patterns(nodes: Sequence[str]) -> dict[str, list[Route]]:
    first, last = nodes[0], nodes[-1]
    patterns = {"one flow": [(first, last)], "both ways": [(first, last), (last, first)]}
    if len(nodes) > 2:
        patterns["ring"] = list(zip(nodes, [*nodes[1:], first], strict=True))
    return patterns


@contextmanager
def _packets_of(size: int) -> Iterator[None]:
    """Give clusters made in this block packets of `size` bytes, by patching the constant in both modules."""
    with mock.patch.object(shaping, "FRAME_BYTES", size), mock.patch.object(network, "FRAME_BYTES", size):
        yield


@contextmanager
def _count_into(made: Emulated, into: FlowTimes) -> Iterator[FlowTimes]:
    before, (segments, again) = jiffies(), _segments(made)
    yield into
    spent, now = jiffies() - before, _segments(made)
    into.jiffies += spent.all
    into.on_packets += spent.on_packets
    into.segments += now[0] - segments
    into.again += now[1] - again


def _segments(made: Emulated) -> tuple[int, int]:
    """Return the TCP segments sent and retransmitted since the hosts were started."""
    segments, again = 0, 0
    for host in made.hosts:
        assert host.init is not None
        names, counts = (
            line.split()[1:]
            for line in Path(f"/proc/{host.init.pid}/net/snmp").read_text(encoding="ascii").splitlines()
            if line.startswith("Tcp:")
        )
        counters = dict(zip(names, map(int, counts), strict=True))
        segments, again = segments + counters["OutSegs"], again + counters["RetransSegs"]
    return segments, again


def _print(
    text: str, cluster: ClusterSpec, patterns: dict[str, list[Route]], times: dict[tuple[str, int], FlowTimes]
) -> None:
    print(f"\n{text}: {FLOW_BYTES / 1e6:g} MB along each route at once")
    head = f"{'':10} {'bytes a packet':>14} {'ideal':>9} {'took':>9}  {'interval':>15} {'of it':>6}"
    print(f"{head} {'packets':>8} {'again':>6}")
    rates = {ends_of(link): link.gbit_per_s.value for link in cluster.links}
    for (pattern, size), measured in times.items():
        routes = [[ends_of(link) for link in cluster.route(*route)] for route in patterns[pattern]]
        ideal = FLOW_BYTES * 8 / 1e9 / min(fair_rates(routes, rates))
        took, (low, high) = statistics.median(measured.seconds), median_interval(measured.seconds)
        print(
            f"{pattern:10} {size:14} {ideal * 1e3:6.1f} ms {took * 1e3:6.1f} ms  "
            f"{low * 1e3:6.1f} - {high * 1e3:6.1f} {ideal / took:6.0%} "
            f"{measured.on_packets / measured.jiffies:8.0%} {measured.again / max(measured.segments, 1):6.1%}"
        )


if __name__ == "__main__":
    main()
