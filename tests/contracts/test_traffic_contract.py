"""The traffic contract: every real interface carries the bytes that `autosync.cost` predicts, for any synchronizer.

Four workers on three hosts (two on the first), with links as fast as this machine. The test counts the kernel's bytes
at each host's interface over some steps, including frame headers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from autosync.cost import traffic
from autosync.spec import (
    ALGORITHMS,
    AllReduce,
    Cast,
    ClusterSpec,
    ModelSpec,
    ParameterServer,
    Partition,
    PowerSGD,
    Strategy,
    SufficientFactors,
    Synchronizer,
    TopK,
    VariableStrategy,
)
from studies.by_hand.peers.engine import MEMBER
from studies.by_hand.peers.host_processes import HostProcesses
from studies.by_hand.peers.links import interface_bytes, star
from tests.trials.emulate.clusters import needs_root
from trials.emulate import Emulated, emulated

pytestmark = needs_root

STEPS = 4
TOP_K = TopK(0.1)
SHARE = 0.03
"""The allowed difference from the predicted bytes, as a share."""
HEADERS = 0.02
"""The share of TCP, IP and Ethernet headers: segments have up to 64 kB here, and acknowledgements travel back."""
CONTROL_BYTES = 60_000
"""Bytes of control a step: the client starts every worker's part of the step, and requests each tensor by name."""


@dataclass(frozen=True)
class Counted:
    """The emulated cluster with its processes, and the model they have loaded."""

    made: Emulated
    client: HostProcesses
    cluster: ClusterSpec
    model: ModelSpec

    def bytes_a_step(self, strategy: Strategy) -> dict[str, float]:
        """The bytes a step that each host sent (`node0 up`) and received (`node0 down`)."""
        said = self.client.ask("realize", strategy=strategy.to_json())[0]
        assert "fault" not in said, said
        self.client.ask("settle")
        before = interface_bytes(self.made.hosts)
        self.client.ask("run", warmup=0, steps=STEPS)
        self.client.ask("settle")
        after = interface_bytes(self.made.hosts)
        counted = {}
        for host, old, new in zip(self.made.hosts, before, after, strict=True):
            received, sent = ((late - early) / STEPS for early, late in zip(old, new, strict=True))
            counted |= {f"{host.node} up": sent, f"{host.node} down": received}
        return counted

    @property
    def index_bytes(self) -> int:
        """Bytes of the indices of a top-k over all dense variables in one bucket, for each receiving replica."""
        return 4 * TOP_K.kept(sum(variable.elements for variable in self.model.variables if not variable.sparse))

    def predicted(self, strategy: Strategy) -> dict[str, float]:
        expected: dict[str, float] = {}
        for link, size in zip(self.cluster.links, traffic(self.model, self.cluster, strategy).bytes, strict=True):
            if link.source != link.target:
                nodes = [node.name for node in self.cluster.nodes]
                name = f"{link.source} up" if link.source in nodes else f"{link.target} down"
                expected[name] = expected.get(name, 0.0) + float(size)
        return expected


@pytest.fixture(scope="module")
def counted() -> Iterator[Counted]:
    small = star("3xunshaped")
    cluster = replace(small, nodes=(replace(small.nodes[0], workers=2), *small.nodes[1:]))
    with emulated("traffic", cluster, start_ray=False) as made:
        hosts = [made.hosts[0], *made.hosts]
        with (
            HostProcesses(hosts, MEMBER, ["serve"]) as servers,
            HostProcesses(made.hosts[:1], MEMBER, ["client"]) as client,
        ):
            started = servers.ask_each("start", [{"host": host.address} for host in hosts])
            addresses = [answer["address"] for answer in started]
            client.ask("connect", addresses=addresses, host=hosts[0].address, cluster=cluster.to_json())
            spec = client.ask("load", task="tests.contracts.traffic_task:task")[0]["spec"]
            yield Counted(made, client, cluster, ModelSpec.from_json(spec))


SPARSE = ParameterServer("node1/cpu:0")


def strategy_by(
    model: ModelSpec, cluster: ClusterSpec, dense: Synchronizer, sparse: Synchronizer = SPARSE, shards: int = 1
) -> Strategy:
    """A strategy that synchronizes all dense variables alike, cut if they have enough rows, and the table apart."""
    variables = []
    for variable in model.variables:
        synchronizer = sparse if variable.sparse else dense
        if isinstance(synchronizer.compressor, SufficientFactors) and variable.factor_rows is None:
            synchronizer = replace(synchronizer, compressor=None)
            if isinstance(synchronizer, AllReduce):
                synchronizer = replace(synchronizer, group=7)
        cut = Partition(0, shards) if shards > 1 and variable.shape[0] >= shards else None
        variables.append(VariableStrategy(variable.name, (synchronizer,) * (shards if cut else 1), cut))
    return Strategy(tuple(map(str, cluster.replica_devices)), tuple(variables))


WAYS: dict[str, tuple[Synchronizer, ...]] = {
    **{algorithm: (AllReduce(0, algorithm),) for algorithm in ALGORITHMS},
    "ring, rows gathered": (AllReduce(0), AllReduce(1)),
    "server on node2": (ParameterServer("node2/cpu:0"), ParameterServer("node2/cpu:0")),
    "server on node1, local copies": (ParameterServer("node1/cpu:0", local_copy=True),),
    "bf16 ring": (AllReduce(0, "ring", Cast("bf16")), AllReduce(1, "ring", Cast("bf16"))),
    "fp16 server": (
        ParameterServer("node2/cpu:0", compressor=Cast("fp16")),
        ParameterServer("node2/cpu:0", compressor=Cast("fp16")),
    ),
    "top-k gathered": (AllReduce(0, "ring", TOP_K),),
    "top-k in turn": (AllReduce(0, "ring", TopK(0.1, "star")),),
    "top-k by variance": (AllReduce(0, "tree", TopK(0.1, "var")),),
    "top-k to a server": (ParameterServer("node1/cpu:0", compressor=TOP_K),),
    "PowerSGD": (AllReduce(0, "ring", PowerSGD(16)),),
    "PowerSGD to a server": (ParameterServer("node1/cpu:0", compressor=PowerSGD(16)),),
    "factors": (AllReduce(0, "ring", SufficientFactors()),),
    "factors to a server": (ParameterServer("node2/cpu:0", compressor=SufficientFactors()),),
    "stale server": (ParameterServer("node2/cpu:0", staleness=1), ParameterServer("node2/cpu:0", staleness=1)),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_link_carries_what_is_predicted(way, counted, count_traffic):
    strategy = strategy_by(counted.model, counted.cluster, *WAYS[way])
    measured, predicted = counted.bytes_a_step(strategy), counted.predicted(strategy)
    assert measured.keys() == predicted.keys()
    count_traffic(way, measured, predicted)
    # The data decide the replica that broadcasts its indices; the prediction uses each replica in turn.
    either = counted.index_bytes * 3 if way == "top-k by variance" else 0
    acknowledgements = HEADERS * max(predicted.values())
    for link, expected in predicted.items():
        low = expected * (1 - SHARE) - either
        high = expected * (1 + SHARE + HEADERS) + acknowledgements + CONTROL_BYTES + either
        assert low <= measured[link] <= high, f"{link}: {measured[link]:.0f} bytes where {expected:.0f} are predicted"
