"""The client that drives all workers: it opens sessions, relays the workers' texts, and probes their connections."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, final

import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from autosync.engine.core.contract import Runner
from autosync.engine.core.pacing import Waits
from autosync.engine.pytorch.capture import CapturedModule
from autosync.engine.pytorch.frames import receive_frame, send_frame
from autosync.engine.pytorch.rank import STEP_SECONDS, TakenStep
from autosync.engine.pytorch.session import PyTorchSession
from autosync.engine.pytorch.sockets import CONNECT_SECONDS
from autosync.engine.pytorch.state import Tensors
from autosync.engine.pytorch.training import PyTorchTraining
from autosync.engine.pytorch.transport import TransportError
from autosync.errors import AutosyncError, ClusterError, ModelError, SpecError
from autosync.spec import ClusterSpec, Strategy

ANSWER_SECONDS = STEP_SECONDS + 30.0
"""Seconds that the client waits for an answer: ranks that wait for a lost rank give up before."""

ERRORS: Mapping[str, type[Exception]] = {
    error.__name__: error for error in (ClusterError, ModelError, SpecError, TransportError)
}
"""The errors that keep their type on their way to the client. Any other becomes a `RuntimeError` that names it."""


@final
class PyTorchClient:
    """The one process that drives all workers."""

    def __init__(self, token: str) -> None:
        """`token` is the set's, which workers ask for."""
        self._token = token
        self._connections: list[socket.socket] = []

    def connect(self, addresses: Sequence[str], host: str) -> None:
        """Connect to the workers at `addresses`, and connect them with each other. Raises `ClusterError`."""
        del host
        for connection in self._connections:
            connection.close()
        self._connections = []
        for address in addresses:
            name, _, port = address.rpartition(":")
            try:
                connection = socket.create_connection((name.strip("[]"), int(port)), timeout=CONNECT_SECONDS)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection.settimeout(ANSWER_SECONDS)
                send_frame(connection, {"token": self._token})
            except OSError as error:
                raise ClusterError(f"The worker at {address} cannot be reached ({error}).") from None
            self._connections.append(connection)
        self.rejoin()

    def rejoin(self) -> None:
        """Connect the workers with each other, again if need be."""
        self.ask_all([{"do": "join", "rank": rank, "size": self.size} for rank in range(self.size)])

    @property
    def size(self) -> int:
        return len(self._connections)

    def ask_all(self, requests: Sequence[Mapping[str, Any]], data: bytes = b"") -> list[tuple[dict[str, Any], bytes]]:
        """The workers' answers to a request each. Raises the error of the first worker that failed.

        An answer that has a text alone asks to share it: all workers then get the texts of all.
        """
        self.send_all(requests, data)
        return self.answers()

    def send_all(self, requests: Sequence[Mapping[str, Any]], data: bytes = b"") -> None:
        """Send a request to each worker, which answers after its earlier requests."""
        try:
            for connection, request in zip(self._connections, requests, strict=True):
                send_frame(connection, dict(request), data)
        except OSError as error:
            raise _lost(error) from None

    def answers(self) -> list[tuple[dict[str, Any], bytes]]:
        """The workers' answers to their first unanswered request; see `ask_all`."""
        try:
            while True:
                answers = [receive_frame(connection) for connection in self._connections]
                texts = [answer.get("text") for answer, _ in answers if answer.keys() == {"text"}]
                if len(texts) < len(answers):
                    break
                for connection in self._connections:
                    send_frame(connection, {"texts": texts})
        except OSError as error:
            raise _lost(error) from None
        for answer, _ in answers:
            if "error" in answer:
                kind, text = answer["error"], answer["text"]
                raise ERRORS[kind](text) if kind in ERRORS else RuntimeError(f"{kind}: {text}")
        return answers

    def transport(self, cluster: ClusterSpec) -> PyTorchProbe:
        return PyTorchProbe(self, cluster)

    def session(self, captured: Any, cluster: ClusterSpec, waits: Mapping[str, Waits] | None) -> PyTorchSession:
        del waits
        return PyTorchSession(captured, cluster, RemoteRanks(self, captured, cluster))

    def training(
        self, captured: Any, cluster: ClusterSpec, strategy: Strategy, waits: Mapping[str, Waits] | None
    ) -> Runner:
        return PyTorchTraining(self.session(captured, cluster, waits), strategy)


def _lost(error: OSError) -> ClusterError:
    return ClusterError(f"A worker does not answer any more ({error}).")


@final
class RemoteRanks:
    """The ranks of a session in the client's workers."""

    def __init__(self, client: PyTorchClient, captured: CapturedModule, cluster: ClusterSpec) -> None:
        """Load the captured module on all workers. Raises `ClusterError` where replicas are on GPUs."""
        if any(device.kind == "gpu" for device in cluster.replica_devices):
            raise ClusterError("So far the PyTorch engine runs on CPUs only; leave the GPUs out of the cluster file.")
        self._client = client
        self._data = captured.to_bytes()
        self._document = {"do": "load", "cluster": cluster.to_json()}
        self._is_broken = False
        self._load()

    def realize(self, strategy: Strategy, trains: bool) -> None:
        if self._is_broken:  # ranks whose transport has failed join each other again
            self._client.rejoin()
            self._load()
            self._is_broken = False
        self._ask({"do": "realize", "strategy": strategy.to_json(), "trains": trains})

    def record(self) -> None:
        self._ask({"do": "record"})

    def begin_step(self, seconds: Sequence[float] | None, is_held: bool) -> None:
        lengths = [None] * self._client.size if seconds is None else seconds
        with self._noting_faults():
            self._client.send_all([{"do": "step", "seconds": length, "is_held": is_held} for length in lengths])

    def end_step(self) -> list[TakenStep]:
        with self._noting_faults():
            answers = self._client.answers()
        return [TakenStep(answer["loss"], tuple(answer["late"])) for answer, _ in answers]

    def values(self, rank: int) -> dict[str, torch.Tensor]:
        return load_tensors(self._ask({"do": "values"})[rank][1])

    def state(self) -> Tensors:
        answers = self._ask({"do": "state"})
        return {name: tensor for _, data in answers for name, tensor in load_tensors(data).items()}

    def load_state(self, tensors: Mapping[str, torch.Tensor], steps: int) -> None:
        self._ask({"do": "load_state", "steps": steps}, save_tensors(dict(tensors)))

    def end(self) -> None:
        if not self._is_broken:
            self._ask({"do": "end"})

    def close(self) -> None:
        self.end()

    def _load(self) -> None:
        self._client.ask_all([self._document] * self._client.size, self._data)

    def _ask(self, request: Mapping[str, Any], data: bytes = b"") -> list[tuple[dict[str, Any], bytes]]:
        with self._noting_faults():
            return self._client.ask_all([request] * self._client.size, data)

    @contextmanager
    def _noting_faults(self) -> Iterator[None]:
        try:
            yield
        except SpecError:
            raise
        except (AutosyncError, TransportError, RuntimeError):
            self._is_broken = True
            raise


@final
class PyTorchProbe:
    """The ranks' own connections, for probes (`Transport` of the contract)."""

    def __init__(self, client: PyTorchClient, cluster: ClusterSpec) -> None:
        self._client = client
        self._rank_of = {str(device): rank for rank, device in enumerate(cluster.server_devices)}

    def flows(self, pairs: Sequence[tuple[str, str]]) -> Callable[[Sequence[int]], float]:
        ends = [(self._rank_of[source], self._rank_of[target]) for source, target in pairs]

        def call(sizes: Sequence[int]) -> float:
            return self._exchanged([(source, target, size) for (source, target), size in zip(ends, sizes, strict=True)])

        return call

    def hops(self, source: str, target: str, count: int) -> Callable[[], float]:
        first, second = self._rank_of[source], self._rank_of[target]
        request = {"do": "bounce", "source": first, "target": second, "count": count}
        return lambda: self._seconds(request, first)

    def messages(self, source: str, target: str, count: int) -> Callable[[], float]:
        ends = self._rank_of[source], self._rank_of[target]
        return lambda: self._exchanged([(*ends, 4)] * count)

    def copies(self, device: str, array_bytes: int, count: int) -> Callable[[], float]:
        rank = self._rank_of[device]
        return lambda: self._seconds({"do": "copy", "rank": rank, "array_bytes": array_bytes, "count": count}, rank)

    def _exchanged(self, messages: Sequence[tuple[int, int, int]]) -> float:
        """Seconds in which all messages (source rank, target rank, bytes) arrive."""
        sends: list[list[list[int]]] = [[] for _ in range(self._client.size)]
        receives: list[list[list[int]]] = [[] for _ in range(self._client.size)]
        for source, target, size in messages:
            if source != target:
                sends[source].append([len(receives[target]), target, size])
                receives[target].append([source, size])
        requests = [{"do": "send", "sends": mine, "receives": due} for mine, due in zip(sends, receives, strict=True)]
        began = time.perf_counter()
        self._client.ask_all(requests)
        return time.perf_counter() - began

    def _seconds(self, request: Mapping[str, Any], rank: int) -> float:
        seconds: float = self._client.ask_all([request] * self._client.size)[rank][0]["seconds"]
        return seconds
