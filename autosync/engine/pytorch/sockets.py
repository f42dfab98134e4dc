"""A transport over TCP: one thread per process, and a priority queue of messages in pieces for each peer.

A message in front of a queue can be overtaken piece by piece, so urgent messages need not wait for large ones. A plain
connection cannot do that: its bytes arrive in the order in which they were posted.
"""

from __future__ import annotations

import hmac
import os
import queue
import secrets
import selectors
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from heapq import heappop, heappush
from itertools import count
from typing import final

from autosync.engine.pytorch.send_buffer import SendBuffer
from autosync.engine.pytorch.transport import CLOSED, Action, Arrival, RankTransport, Tag, TransportError

PIECE_BYTES = 1 << 15
"""Bytes of a piece of a message: 0.26 ms at 1 Gbit/s. On connections with a larger send buffer, pieces are as large as
the buffer. An urgent message waits for the piece that is being sent, and for the bytes in the buffer."""

TOKEN_BYTES = 32

CONNECT_SECONDS = 60.0
"""Seconds within which all ranks must have joined the group."""

GREETING_SECONDS = 5.0
"""Seconds that a new connection may take to present the token, so a silent stranger delays the others only briefly."""

GOODBYE = (1 << 32) - 1
"""The number of no exchange: a header with it says that its sender needs nothing more and closes the connection."""

GOODBYE_SECONDS = 1.0
"""Seconds in which a closing rank tries to say goodbye to another."""

_HEADER = struct.Struct("<IIIIQQ")  # exchange, step, message, bytes of the piece, offset, bytes of the message
_GREETING = struct.Struct(f"<{TOKEN_BYTES}sI")  # token and rank


class _Peer:
    """The connection to another rank, with the piece that is being sent and the piece that is being received."""

    def __init__(self, rank: int, connection: socket.socket) -> None:
        self.rank = rank
        self.connection = connection
        self.buffer = SendBuffer(connection)
        self.waiting: list[tuple[int, float, int, _Outgoing]] = []
        """A heap by step, priority and order of sending."""
        self.sending: list[memoryview] = []
        self.sent: Action | None = None
        """The action after the piece that is being sent, if this piece ends its message."""
        self.has_left = False
        """Whether the rank has said goodbye, so that the end of the connection is no failure."""
        self.is_blocked = False
        """Whether the kernel's send buffer was full at the last attempt."""
        self.header = bytearray(_HEADER.size)
        self.header_bytes = 0
        self.piece: memoryview | None = None
        """The part of the piece that has not arrived yet; None while a header is read."""
        self.tag = Tag(0, 0, 0)
        self.piece_bytes = 0


class _Outgoing:
    """A message to be sent, and the bytes of it that were handed to the connection."""

    def __init__(self, tag: Tag, data: memoryview, then: Action) -> None:
        self.tag = tag
        self.data = data
        self.then = then
        self.handed = 0


@final
class SocketTransport(RankTransport):
    """One rank's connections to all other ranks."""

    def __init__(self, rank: int, connections: dict[int, socket.socket]) -> None:
        """`connections` has a connected socket for every other rank; use `connect_sockets`."""
        super().__init__(rank, len(connections) + 1)
        self._selector = selectors.DefaultSelector()
        self._peers: dict[int, _Peer] = {}
        for peer, connection in connections.items():
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setblocking(False)
            self._peers[peer] = _Peer(peer, connection)
            self._selector.register(connection, selectors.EVENT_READ, self._peers[peer])
        self._order = count()
        self._actions: queue.SimpleQueue[Action] = queue.SimpleQueue()
        self._bell, self._bell_end = socket.socketpair()
        self._bell.setblocking(False)
        self._bell_end.setblocking(False)
        self._selector.register(self._bell_end, selectors.EVENT_READ, None)
        self._is_open = True
        self._thread = threading.Thread(target=self._run, name=f"transport of rank {rank}", daemon=True)
        self._thread.start()

    def receive(self, peer: int, tag: Tag, memory: memoryview | None, then: Arrival) -> None:
        super().receive(peer, tag, memory, then)
        if self._peers[peer].has_left and self._awaits(peer):
            raise self._lost(self._peers[peer], None)

    def call(self, action: Action) -> None:
        self._actions.put(action)
        with suppress(OSError):  # the bell is full, so the thread wakes anyway; or the thread has ended
            self._bell.send(b"\0")

    def send(self, peer: int, tag: Tag, data: memoryview, priority: float, then: Action) -> None:
        connected = self._peers[peer]
        if connected.has_left:
            raise self._lost(connected, None)
        heappush(connected.waiting, (tag.step, priority, next(self._order), _Outgoing(tag, data, then)))
        if not connected.is_blocked:
            self._write(connected)

    def close(self) -> None:
        super().close()
        self._is_open = False
        self.call(lambda: None)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        try:
            while self._is_open:
                for key, events in self._selector.select():
                    if key.data is None:
                        self._act()
                        continue
                    if events & selectors.EVENT_READ:
                        self._read(key.data)
                    if events & selectors.EVENT_WRITE:
                        self._write(key.data)
            self._say_goodbye()
        except Exception as error:  # a waiting thread must learn of every error
            self._fail_by(error)
        finally:
            self._fail(CLOSED)
            for peer in self._peers.values():
                peer.connection.close()
            self._selector.close()
            self._bell.close()
            self._bell_end.close()

    def _act(self) -> None:
        """Run the actions that other threads have handed over."""
        with suppress(BlockingIOError):
            self._bell_end.recv(4096)
        while True:
            try:
                action = self._actions.get_nowait()
            except queue.Empty:
                return
            action()

    def _write(self, peer: _Peer) -> None:
        """Send pieces until nothing waits or the kernel's buffer is full."""
        while True:
            if not peer.sending:
                if not peer.waiting:
                    break
                self._take_piece(peer)
            try:
                sent = peer.connection.sendmsg(peer.sending)
            except BlockingIOError:
                peer.buffer.grow()
                self._watch_writes(peer, True)
                return
            except OSError as error:
                raise self._lost(peer, error) from None
            while peer.sending and sent >= len(peer.sending[0]):
                sent -= len(peer.sending.pop(0))
            if peer.sending:
                peer.sending[0] = peer.sending[0][sent:]
            elif peer.sent is not None:
                then, peer.sent = peer.sent, None
                then()
        self._watch_writes(peer, False)

    def _take_piece(self, peer: _Peer) -> None:
        """Make the next piece of the most urgent message the piece that is being sent."""
        message = peer.waiting[0][-1]
        piece = message.data[message.handed : message.handed + max(PIECE_BYTES, peer.buffer.bytes)]
        header = _HEADER.pack(*message.tag, len(piece), message.handed, len(message.data))
        peer.sending = [memoryview(header), piece] if len(piece) else [memoryview(header)]
        message.handed += len(piece)
        if message.handed == len(message.data):
            heappop(peer.waiting)
            peer.sent = message.then

    def _watch_writes(self, peer: _Peer, blocked: bool) -> None:
        if peer.is_blocked != blocked:
            peer.is_blocked = blocked
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if blocked else 0)
            self._selector.modify(peer.connection, events, peer)

    def _read(self, peer: _Peer) -> None:
        """Receive until nothing more has arrived."""
        while True:
            try:
                if peer.piece is None:
                    received = peer.connection.recv_into(memoryview(peer.header)[peer.header_bytes :])
                else:
                    received = peer.connection.recv_into(peer.piece)
            except BlockingIOError:
                return
            except OSError as error:
                raise self._lost(peer, error) from None
            if received == 0:
                if peer.has_left and not self._awaits(peer.rank):
                    self._selector.unregister(peer.connection)
                    return
                raise self._lost(peer, None)
            if peer.piece is None:
                peer.header_bytes += received
                if peer.header_bytes == _HEADER.size:
                    self._begin_piece(peer)
            else:
                peer.piece = peer.piece[received:]
            if peer.piece is not None and not len(peer.piece):
                peer.piece = None
                self._arrived(peer.rank, peer.tag, peer.piece_bytes)

    def _begin_piece(self, peer: _Peer) -> None:
        exchange, step, number, size, offset, whole = _HEADER.unpack(peer.header)
        if exchange == GOODBYE:
            peer.has_left, peer.header_bytes = True, 0
            return
        peer.tag, peer.piece_bytes, peer.header_bytes = Tag(exchange, step, number), size, 0
        peer.piece = self._memory(peer.rank, peer.tag, whole)[offset : offset + size]

    def _say_goodbye(self) -> None:
        """Tell the other ranks that this rank closes because it has finished. They may need a while longer."""
        goodbye = _HEADER.pack(GOODBYE, 0, 0, 0, 0, 0)
        for peer in self._peers.values():
            if not peer.sending and not peer.waiting:  # otherwise the other rank still waits for something
                with suppress(OSError):
                    peer.connection.settimeout(GOODBYE_SECONDS)
                    peer.connection.sendall(goodbye)

    def _lost(self, peer: _Peer, error: OSError | None) -> TransportError:
        cause = "closed the connection" if error is None else f"is out of reach ({error.strerror})"
        return TransportError(f"rank {peer.rank} {cause}; it has probably ended or failed.")


GatherTexts = Callable[[str], Sequence[str]]
"""Share a text with all ranks; return the texts of all ranks, by rank."""


def connect_sockets(rank: int, size: int, address: str, gather: GatherTexts) -> SocketTransport:
    """Connect this rank to all others over `address`, the only address that it listens on.

    A connection is accepted only with the token that rank 0 draws for this group. Raises `TransportError` when a rank
    does not connect in time.
    """
    token = bytes.fromhex(gather(secrets.token_hex(TOKEN_BYTES))[0])
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, 0), family=family, backlog=size) as listener:
        places = [text.rsplit(" ", 1) for text in gather(f"{address} {listener.getsockname()[1]}")]
        connections: dict[int, socket.socket] = {}
        listener.settimeout(CONNECT_SECONDS)
        try:
            for peer in range(rank):
                host, port = places[peer]
                connections[peer] = socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS)
                connections[peer].sendall(_GREETING.pack(token, rank))
            while len(connections) < size - 1:
                connection, _ = listener.accept()
                caller = _rank_from_greeting(connection, token)
                if caller is None or not rank < caller < size or caller in connections:
                    connection.close()  # a stranger
                else:
                    connections[caller] = connection
        except OSError as error:
            for connection in connections.values():
                connection.close()
            missing = sorted(set(range(size)) - connections.keys() - {rank})
            raise TransportError(
                f"Rank {rank} at {address} reached no connection with rank {missing[0]} within {CONNECT_SECONDS:g} "
                f"seconds ({error}); check that the ranks' nodes reach each other on all ports."
            ) from None
    return SocketTransport(rank, connections)


def _rank_from_greeting(connection: socket.socket, token: bytes) -> int | None:
    """The rank that the other end of a new connection says it has; None without the right token."""
    connection.settimeout(GREETING_SECONDS)
    received = b""
    try:
        while len(received) < _GREETING.size:
            part = connection.recv(_GREETING.size - len(received))
            if not part:
                return None
            received += part
    except OSError:
        return None
    sent_token, rank = _GREETING.unpack(received)
    return int(rank) if hmac.compare_digest(sent_token, token) else None


def own_address(master: str) -> str:
    """The address of this machine by which it reaches `master`, the host name or address of rank 0."""
    family, _, _, _, target = socket.getaddrinfo(master, 9, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect(target)  # sends nothing; it only chooses a route
        return str(probe.getsockname()[0])


def master_address() -> str:
    """The address of rank 0 as `torchrun` states it; the loopback address without `torchrun`."""
    return os.environ.get("MASTER_ADDR", "127.0.0.1")
