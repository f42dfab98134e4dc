"""autosync over an emulated cluster, driven from outside: strategies realized and their steps timed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, final

from autosync.errors import TrialError
from autosync.spec import ClusterSpec, ModelSpec, Strategy
from tests.by_hand.peers.crew import Crew
from tests.by_hand.peers.tracing import Operation
from trials.emulate import Emulated

__all__ = ["MEMBER", "Engine", "engine_on"]

MEMBER = "tests.by_hand.peers.engine_member"


@final
class Engine:
    """A client in the first host and a server in each; or a client alone, whose process has all the devices."""

    def __init__(self, cluster: ClusterSpec, servers: Crew | None, client: Crew) -> None:
        self.cluster = cluster
        self._servers = servers
        self._client = client
        self._model: ModelSpec | None = None

    def load(self, task: str, session: str = "", paced: ClusterSpec | None = None) -> ModelSpec:
        """Make `task` (of `peers.tasks`) the model that strategies of a session are for.

        A session is on the cluster, or on `paced`, which is the same with paced nodes; then the model has a profile.
        """
        fields: dict[str, Any] = {"task": task, "session": session}
        if paced is not None:
            assert self._servers is not None
            devices = map(str, paced.server_devices)
            waits = dict(zip(devices, self._servers.ask("waits"), strict=True))
            fields |= {"paced": paced.to_json(), "waits": waits}
        self._model = ModelSpec.from_json(self._client.ask("load", **fields)[0]["spec"])
        return self._model

    def connect_anew(self, task: str) -> None:
        """Connect the client to the servers anew, and load `task` again."""
        self._client.ask("connect_anew", task=task)

    @property
    def model(self) -> ModelSpec:
        assert self._model is not None, "load comes first"
        return self._model

    def pass_seconds(self) -> float:
        """Core-seconds of one replica's forward and backward pass."""
        return float(self._client.ask("passes")[0])

    def realize(self, strategy: Strategy, session: str = "", seed: int = 0) -> dict[str, float]:
        """Seconds to place the strategy, and of its first step with its tracing. Raises `TrialError`.

        `seed` is what the passes of paced steps are drawn by.
        """
        said = dict(self._client.ask("realize", strategy=strategy.to_json(), session=session, seed=seed)[0])
        if "fault" in said:
            raise TrialError(said["fault"])
        return said

    def run(self, warmup: int, steps: int, session: str = "", pause: float = 0.0) -> dict[str, Any]:
        """Step seconds of the strategy that was realized last in the session; of paced ones how the pace was kept.

        There are `pause` seconds before each step.
        """
        return dict(self._client.ask("run", warmup=warmup, steps=steps, session=session, pause=pause)[0])

    def forget(self, session: str) -> None:
        """Let go of the strategy that was realized last in the session."""
        self._client.ask("forget", session=session)

    def traced(
        self, addresses: Sequence[str], ports: Sequence[int], folder: str, steps: int
    ) -> tuple[list[list[Operation]], list[tuple[int, int]]]:
        """Every server's operations, and when each step began and ended (ns since 1970), of `steps` steps.

        The servers' profilers listen at `ports`, and write to `folder`.
        """
        assert self._servers is not None
        self._servers.ask_each("profile", [{"port": port} for port in ports])
        profilers = [f"{address}:{port}" for address, port in zip(addresses, ports, strict=True)]
        said = self._client.ask("trace", profilers=profilers, folder=folder, steps=steps)[0]
        operations = [[(name, begin, end) for name, begin, end in each] for each in said["operations"]]
        return operations, [(begin, end) for begin, end in said["steps"]]

    def flow_seconds(self, pairs: Sequence[tuple[str, str]], flow_bytes: int, calls: int) -> list[float]:
        """Seconds of calls that send `flow_bytes` from one device to the other of each pair, all at once."""
        return list(self._client.ask("flows", pairs=pairs, bytes=flow_bytes, calls=calls)[0]["seconds"])

    def ring_flow_seconds(self, flow_bytes: int, calls: int) -> list[float]:
        """Seconds of calls that send `flow_bytes` from every node to the next at once, over TensorFlow's transport."""
        devices = [str(each) for each in self.cluster.server_devices]
        return self.flow_seconds(list(zip(devices, [*devices[1:], devices[0]], strict=True)), flow_bytes, calls)

    def cpu_seconds(self) -> float:
        return (self._servers.cpu_seconds() if self._servers else 0.0) + self._client.cpu_seconds()

    def servers_cpu_seconds(self) -> list[float]:
        """Processor seconds that each server, where a replica is, has used so far."""
        assert self._servers is not None
        return self._servers.each_cpu_seconds()

    def memory_bytes(self) -> tuple[int, list[int]]:
        """Bytes of the client's memory, and of each server's."""
        return self._client.ask("memory")[0], self._servers.ask("memory") if self._servers else []


@contextmanager
def engine_on(made: Emulated, paced_replicas: int = 0, cpus: Sequence[int] = ()) -> Iterator[Engine]:
    """Start the processes in the hosts, and connect them.

    Each can pace `paced_replicas`. Those of host k stay on processor `cpus[k]` where any are named, as if that was all
    that its node had; the client, in the first host, shares its one.
    """
    hosts, cluster = made.hosts, made.cluster
    assert all(node.workers == 1 for node in cluster.nodes), "One worker a host is what this starts."
    with Crew(hosts, MEMBER, ["serve"]) as servers, Crew(hosts[:1], MEMBER, ["client"]) as client:
        fields: list[dict[str, Any]] = [{"host": host.address, "paced_replicas": paced_replicas} for host in hosts]
        for own, cpu in zip(fields, cpus, strict=False):
            own |= {"cpu": cpu, "cores": 1}
        started = servers.ask_each("start", fields)
        addresses = [each["address"] for each in started]
        where = {"host": hosts[0].address, "cpu": cpus[0] if cpus else None}
        client.ask("connect", addresses=addresses, cluster=cluster.to_json(), **where)
        yield Engine(cluster, servers, client)
