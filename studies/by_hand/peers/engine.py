"""Drives autosync over an emulated cluster from outside: realizes strategies and times their steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, final

from autosync.errors import TrialError
from autosync.spec import ClusterSpec, ModelSpec, Strategy
from studies.by_hand.peers.host_processes import HostProcesses
from studies.by_hand.peers.tracing import Operation
from trials.emulate import Emulated

__all__ = ["MEMBER", "EngineDriver", "start_engine"]

MEMBER = "studies.by_hand.peers.engine_member"


@final
class EngineDriver:
    """A client in the first host and a server in each host; or only a client, whose process has all devices."""

    def __init__(self, cluster: ClusterSpec, servers: HostProcesses | None, client: HostProcesses) -> None:
        self.cluster = cluster
        self._servers = servers
        self._client = client
        self._model: ModelSpec | None = None

    def load(self, task: str, session: str = "", paced: ClusterSpec | None = None) -> ModelSpec:
        """Make `task` (of `peers.tasks`) the model of a session.

        The session runs on the cluster, or on `paced`, the same cluster with paced nodes; then the model has a profile.
        """
        fields: dict[str, Any] = {"task": task, "session": session}
        if paced is not None:
            assert self._servers is not None
            devices = map(str, paced.server_devices)
            waits = dict(zip(devices, self._servers.ask("waits"), strict=True))
            fields |= {"paced": paced.to_json(), "waits": waits}
        self._model = ModelSpec.from_json(self._client.ask("load", **fields)[0]["spec"])
        return self._model

    def reconnect(self, task: str) -> None:
        """Connect the client to the servers again, and reload `task`."""
        self._client.ask("reconnect", task=task)

    @property
    def model(self) -> ModelSpec:
        assert self._model is not None, "load comes first"
        return self._model

    def pass_seconds(self) -> float:
        """Return the core-seconds of one replica's forward and backward pass."""
        return float(self._client.ask("passes")[0])

    def realize(self, strategy: Strategy, session: str = "", seed: int = 0) -> dict[str, float]:
        """Realize the strategy; return the seconds to place it, and of its first step including tracing.

        `seed` draws the passes of paced steps. Raises `TrialError` if the strategy cannot run.
        """
        reply = dict(self._client.ask("realize", strategy=strategy.to_json(), session=session, seed=seed)[0])
        if "fault" in reply:
            raise TrialError(reply["fault"])
        return reply

    def run(self, warmup: int, steps: int, session: str = "", pause: float = 0.0) -> dict[str, Any]:
        """Run the strategy realized last in the session; return step seconds, and for paced steps the lateness.

        The process sleeps `pause` seconds before each step.
        """
        return dict(self._client.ask("run", warmup=warmup, steps=steps, session=session, pause=pause)[0])

    def forget(self, session: str) -> None:
        """Release the strategy realized last in the session."""
        self._client.ask("forget", session=session)

    def trace(
        self, addresses: Sequence[str], ports: Sequence[int], folder: str, steps: int
    ) -> tuple[list[list[Operation]], list[tuple[int, int]]]:
        """Trace `steps` steps; return every server's operations, and the start and end of each step (ns since 1970).

        The servers' profilers listen at `ports` and write to `folder`.
        """
        assert self._servers is not None
        self._servers.ask_each("profile", [{"port": port} for port in ports])
        profilers = [f"{address}:{port}" for address, port in zip(addresses, ports, strict=True)]
        reply = self._client.ask("trace", profilers=profilers, folder=folder, steps=steps)[0]
        operations = [[(name, begin, end) for name, begin, end in of_server] for of_server in reply["operations"]]
        return operations, [(begin, end) for begin, end in reply["steps"]]

    def flow_seconds(self, pairs: Sequence[tuple[str, str]], flow_bytes: int, calls: int) -> list[float]:
        """Time calls that send `flow_bytes` from the first to the second device of all pairs at once."""
        return list(self._client.ask("flows", pairs=pairs, bytes=flow_bytes, calls=calls)[0]["seconds"])

    def ring_flow_seconds(self, flow_bytes: int, calls: int) -> list[float]:
        """Time calls that send `flow_bytes` from every node to the next one at once, over TensorFlow's transport."""
        devices = [str(device) for device in self.cluster.server_devices]
        return self.flow_seconds(list(zip(devices, [*devices[1:], devices[0]], strict=True)), flow_bytes, calls)

    def cpu_seconds(self) -> float:
        return (self._servers.cpu_seconds() if self._servers else 0.0) + self._client.cpu_seconds()

    def servers_cpu_seconds(self) -> list[float]:
        """Return the processor seconds of each server so far; every server has a replica."""
        assert self._servers is not None
        return self._servers.cpu_seconds_by_process()

    def memory_bytes(self) -> tuple[int, list[int]]:
        """Return the bytes of the client's memory and of each server's memory."""
        return self._client.ask("memory")[0], self._servers.ask("memory") if self._servers else []


@contextmanager
def start_engine(made: Emulated, paced_replicas: int = 0, cpus: Sequence[int] = ()) -> Iterator[EngineDriver]:
    """Start the processes in the hosts and connect them.

    A server can pace `paced_replicas` replicas. If `cpus` are given, the server of host k is pinned to processor
    `cpus[k]`, as if its node had no other; the client, in the first host, shares the processor of that host.
    """
    hosts, cluster = made.hosts, made.cluster
    assert all(node.workers == 1 for node in cluster.nodes), "Every host must have one worker."
    with HostProcesses(hosts, MEMBER, ["serve"]) as servers, HostProcesses(hosts[:1], MEMBER, ["client"]) as client:
        fields: list[dict[str, Any]] = [{"host": host.address, "paced_replicas": paced_replicas} for host in hosts]
        for fields_of_host, cpu in zip(fields, cpus, strict=False):
            fields_of_host |= {"cpu": cpu, "cores": 1}
        started = servers.ask_each("start", fields)
        addresses = [reply["address"] for reply in started]
        where = {"host": hosts[0].address, "cpu": cpus[0] if cpus else None}
        client.ask("connect", addresses=addresses, cluster=cluster.to_json(), **where)
        yield EngineDriver(cluster, servers, client)
