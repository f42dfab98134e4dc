"""The traffic contract between racks: their uplinks carry the bytes that `autosync.cost` predicts.

Two racks of two hosts, with links as fast as this machine. The test counts the kernel's bytes at the switches' ends of
all wires, including headers.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from autosync.cost import traffic
from autosync.spec import AllReduce, Cast, ClusterSpec, Figure, ModelSpec, Strategy, SufficientFactors, TopK
from studies.by_hand.peers.engine import MEMBER
from studies.by_hand.peers.host_processes import HostProcesses
from tests.cases import racks
from tests.contracts.test_traffic_contract import CONTROL_BYTES, HEADERS, SHARE, STEPS, strategy_by
from tests.trials.emulate.clusters import needs_root
from trials.emulate import emulated
from trials.emulate.wiring import Wiring

pytestmark = needs_root


@dataclass(frozen=True)
class Racks:
    """The emulated cluster with its processes, and the model they have loaded."""

    wiring: Wiring
    client: HostProcesses
    cluster: ClusterSpec
    model: ModelSpec

    def bytes_a_step(self, strategy: Strategy) -> dict[str, float]:
        """Bytes a step over each direction of each wire."""
        said = self.client.ask("realize", strategy=strategy.to_json())[0]
        assert "fault" not in said, said
        self.client.ask("settle")
        before = self._carried()
        self.client.ask("run", warmup=0, steps=STEPS)
        self.client.ask("settle")
        return {link: (size - before[link]) / STEPS for link, size in self._carried().items()}

    def _carried(self) -> dict[str, float]:
        """Bytes so far that each port of a switch has sent and received, by the other end of its wire."""
        asked = ["ip", "-n", self.wiring.switch_namespace, "-s", "-j", "link"]
        said = json.loads(subprocess.run(asked, capture_output=True, check=True).stdout)
        counts = {interface["ifname"]: interface["stats64"] for interface in said}
        switch_of = {bridge: switch for switch, bridge in self.wiring.bridges.items()}
        names = [node.name for node in self.cluster.nodes]
        found = {}
        for index, wire in enumerate(self.wiring.veth_pairs):
            near = names[index] if index < len(names) else switch_of[str(wire.a.bridge)]
            far, count = switch_of[str(wire.b.bridge)], counts[wire.b.interface]
            found |= {f"{near}>{far}": count["rx"]["bytes"], f"{far}>{near}": count["tx"]["bytes"]}
        return found


@pytest.fixture(scope="module")
def counted() -> Iterator[Racks]:
    stated = racks(2, 2)
    links = tuple(replace(link, gbit_per_s=Figure(link.gbit_per_s.value, "assumed")) for link in stated.links)
    cluster = replace(stated, links=links)
    with (
        emulated("rack-traffic", cluster, start_ray=False) as made,
        HostProcesses(made.hosts, MEMBER, ["serve"]) as servers,
        HostProcesses(made.hosts[:1], MEMBER, ["client"]) as client,
    ):
        started = servers.ask_each("start", [{"host": host.address} for host in made.hosts])
        addresses = [answer["address"] for answer in started]
        client.ask("connect", addresses=addresses, host=made.hosts[0].address, cluster=cluster.to_json())
        spec = client.ask("load", task="tests.contracts.traffic_task:task")[0]["spec"]
        yield Racks(Wiring("rack-traffic", cluster), client, cluster, ModelSpec.from_json(spec))


WAYS = {
    "rows gathered": (AllReduce(0, "rabenseifner"), AllReduce(1)),
    "rows gathered in 16 bits": (AllReduce(0, "rabenseifner", Cast("bf16")), AllReduce(1, "ring", Cast("fp16"))),
    "factors": (AllReduce(0, "ring", SufficientFactors()), AllReduce(1)),
    "top-k gathered": (AllReduce(0, "ring", TopK(0.1)), AllReduce(1)),
    "top-k in turn": (AllReduce(0, "rabenseifner", TopK(0.1, "star")), AllReduce(1)),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_link_between_racks_carries_what_is_predicted(way, counted, count_traffic):
    strategy = strategy_by(counted.model, counted.cluster, *WAYS[way])
    sizes = traffic(counted.model, counted.cluster, strategy).bytes
    predicted = {
        f"{link.source}>{link.target}": float(size)
        for link, size in zip(counted.cluster.links, sizes, strict=True)
        if link.source != link.target
    }
    measured = counted.bytes_a_step(strategy)
    assert measured.keys() == predicted.keys()
    switches = counted.cluster.switches
    between = {link: predicted[link] for link in predicted if all(end in switches for end in link.split(">"))}
    assert len(between) == 4
    count_traffic(f"racks: {way}", measured, between)
    acknowledgements = HEADERS * max(predicted.values())
    for link, expected in predicted.items():
        low, high = expected * (1 - SHARE), expected * (1 + SHARE + HEADERS) + acknowledgements + CONTROL_BYTES
        assert low <= measured[link] <= high, f"{link}: {measured[link]:.0f} bytes where {expected:.0f} are predicted"
