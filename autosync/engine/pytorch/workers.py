"""Ranks in processes of their own: a worker carries out the requests of the client that drives all workers."""

from __future__ import annotations

import contextlib
import hmac
import socket
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, final

import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from autosync.engine.core.pacing import Waits
from autosync.engine.core.prefetch import Reader
from autosync.engine.pytorch.capture import CapturedModule
from autosync.engine.pytorch.collectives import connect_collectives
from autosync.engine.pytorch.frames import receive_frame, send_frame
from autosync.engine.pytorch.rank import STEP_SECONDS, Rank
from autosync.engine.pytorch.session import NO_WAITS, OWN_DATA
from autosync.engine.pytorch.sockets import CONNECT_SECONDS, SocketTransport, connect_sockets
from autosync.engine.pytorch.transport import Tag
from autosync.errors import ClusterError, SpecError
from autosync.spec import ClusterSpec, Strategy

GREETING_BYTES = 1 << 12
"""The most bytes of the frame with the token."""


@final
class PyTorchWorker:
    """One rank, which carries out a client's requests. It listens at the node's address only.

    A client must present the set's token first. One client is served at a time.
    """

    listens_on_all_interfaces = False

    def __init__(self, address: str, cores: float, token: str) -> None:
        """Listen at `address`, and use as many threads as there are `cores`. Raises `ClusterError`."""
        torch.set_num_threads(max(1, int(cores)))
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            self._listener = socket.create_server((address, 0), family=family)
        except OSError as error:
            raise ClusterError(
                f"No worker can listen at {address} ({error.strerror}); give the node's address in the cluster file."
            ) from None
        host = f"[{address}]" if ":" in address else address
        self.address = f"{host}:{self._listener.getsockname()[1]}"
        self._node_address = address
        self._token = token
        self._transport: SocketTransport | None = None
        self._rank: Rank | None = None
        threading.Thread(target=self._serve, name="requests", daemon=True).start()

    def offer(self, read: Reader, shard: int, shards: int) -> str:
        del read, shard, shards
        raise SpecError(OWN_DATA)

    def offer_waits(self) -> Waits:
        return NO_WAITS

    def _serve(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            with connection, contextlib.suppress(OSError, ValueError):
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection.settimeout(CONNECT_SECONDS)
                greeting, _ = receive_frame(connection, GREETING_BYTES)
                if not hmac.compare_digest(str(greeting.get("token")), self._token):
                    continue
                connection.settimeout(None)
                while True:
                    self._answer(connection, *receive_frame(connection))

    def _answer(self, connection: socket.socket, request: dict[str, Any], data: bytes) -> None:
        """Carry out a request, and send its result or its error."""
        try:
            act: Callable[..., Any] = getattr(self, f"_do_{request.pop('do')}")
            result = act(connection, data, **request)
        except Exception as error:  # the client raises it again, and the worker goes on
            result = {"error": type(error).__name__, "text": str(error)}
        if isinstance(result, bytes):
            send_frame(connection, {}, result)
        else:
            send_frame(connection, result or {})

    def _do_join(self, connection: socket.socket, _: bytes, rank: int, size: int) -> None:
        """Connect with the other ranks. The client passes texts on among them."""
        if self._transport is not None:
            self._transport.close()
        self._rank = None

        self._transport = connect_sockets(rank, size, self._node_address, partial(_gather, connection))

    def _do_load(self, _: socket.socket, data: bytes, cluster: dict[str, Any]) -> None:
        """Build the captured module."""
        captured = CapturedModule.from_bytes(data)
        captured.task  # noqa: B018 - build it now, so that a fault of the model is told here
        self._rank = Rank(captured, ClusterSpec.from_json(cluster), self._joined)

    def _do_realize(self, connection: socket.socket, _: bytes, strategy: dict[str, Any], trains: bool) -> None:
        wanted, transport = Strategy.from_json(strategy), self._joined
        if wanted.has_collectives and transport.collectives is None:
            transport.collectives = connect_collectives(
                transport.rank, transport.size, self._node_address, partial(_gather, connection)
            )
        self._loaded.realize(wanted, trains)

    def _do_record(self, _: socket.socket, __: bytes) -> None:
        self._loaded.record()

    def _do_step(self, _: socket.socket, __: bytes, seconds: float | None, is_held: bool) -> dict[str, Any]:
        taken = self._loaded.step(seconds, is_held)
        return {"loss": taken.loss, "late": taken.late}

    def _do_values(self, _: socket.socket, __: bytes) -> bytes:
        return save_tensors(self._loaded.values())

    def _do_state(self, _: socket.socket, __: bytes) -> bytes:
        return save_tensors(self._loaded.state())

    def _do_load_state(self, _: socket.socket, data: bytes, steps: int) -> None:
        self._loaded.load_state(load_tensors(data), steps)

    def _do_end(self, _: socket.socket, __: bytes) -> None:
        if self._rank is not None:
            self._rank.end()

    def _do_send(self, _: socket.socket, __: bytes, sends: list[list[int]], receives: list[list[int]]) -> None:
        """Send messages of some bytes to some ranks, and receive messages from some ranks, all at once."""
        transport, arrived, expected = self._joined, list[int](), len(sends) + len(receives)
        exchange = transport.number_exchange()

        def note(_: memoryview | None = None) -> None:
            arrived.append(1)
            transport.notify()

        def start() -> None:
            for number, (peer, size) in enumerate(receives):
                transport.receive(peer, Tag(exchange, 1, number), memoryview(bytearray(size)), note)
            for number, peer, size in sends:
                transport.send(peer, Tag(exchange, 1, number), memoryview(bytes(size)), 0.0, note)

        transport.call(start)
        transport.wait_for(lambda: len(arrived) == expected, STEP_SECONDS)

    def _do_bounce(self, _: socket.socket, __: bytes, source: int, target: int, count: int) -> dict[str, float]:
        """Send a scalar from rank `source` to rank `target` and back, `count` times; the seconds that it took."""
        transport = self._joined
        exchange = transport.number_exchange()
        if transport.rank not in (source, target):
            return {"seconds": 0.0}
        peer = target if transport.rank == source else source
        turns = [0]

        def send(number: int) -> None:
            transport.send(peer, Tag(exchange, 1, number), memoryview(bytes(4)), 0.0, lambda: None)

        def receive(number: int) -> None:
            transport.receive(peer, Tag(exchange, 1, number), memoryview(bytearray(4)), partial(note, number))

        def note(number: int, _: memoryview) -> None:
            turns[0] += 1
            if turns[0] < count:
                receive(number + 1)
            if transport.rank == target:
                send(number)
            elif turns[0] < count:
                send(number + 1)
            transport.notify()

        def start() -> None:
            receive(0)
            if transport.rank == source:
                send(0)

        began = time.perf_counter()
        if count:
            transport.call(start)
            transport.wait_for(lambda: turns[0] == count, STEP_SECONDS)
        return {"seconds": time.perf_counter() - began}

    def _do_copy(self, _: socket.socket, __: bytes, rank: int, array_bytes: int, count: int) -> dict[str, float]:
        """Copy an array `count` times into fresh memory on `rank`; the seconds that it took."""
        if self._joined.rank != rank:
            return {"seconds": 0.0}
        array = torch.zeros(array_bytes, dtype=torch.uint8)
        began = time.perf_counter()
        for _number in range(count):
            array.clone()
        return {"seconds": time.perf_counter() - began}

    @property
    def _joined(self) -> SocketTransport:
        if self._transport is None:
            raise ClusterError("This worker has joined no other workers yet.")
        return self._transport

    @property
    def _loaded(self) -> Rank:
        if self._rank is None:
            raise SpecError("This worker has loaded no model yet.")
        return self._rank


def _gather(connection: socket.socket, text: str) -> Sequence[str]:
    """Share a text among all workers through their client."""
    send_frame(connection, {"text": text})
    texts: list[str] = receive_frame(connection)[0]["texts"]
    return texts
