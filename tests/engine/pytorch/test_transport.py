"""Messages between ranks: any size, any order, urgent ones first; strangers and lost ranks are dealt with."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from autosync.engine.pytorch import sockets
from autosync.engine.pytorch.send_buffer import LEAST_BYTES, PERIOD, SendBuffer
from autosync.engine.pytorch.sockets import PIECE_BYTES, SocketTransport, connect_sockets, own_address
from autosync.engine.pytorch.transport import RankTransport, Tag, TransportError
from tests.engine.pytorch.ranks import TAGGED, gathers, on_all_ranks, socket_group

Ring = Sequence[RankTransport]


@pytest.fixture(params=TAGGED)
def ranks(request: pytest.FixtureRequest) -> Iterator[Ring]:
    """Three ranks."""
    group = TAGGED[request.param](3)
    yield group
    for transport in group:
        transport.close()


@pytest.fixture
def pair() -> Iterator[list[SocketTransport]]:
    group = socket_group(2)
    yield group
    for transport in group:
        transport.close()


class Inbox:
    """Messages that a rank has received, in order of arrival."""

    def __init__(self, transport: RankTransport) -> None:
        self.arrived: list[tuple[Tag, bytes]] = []
        self._transport = transport

    def expect(self, peer: int, tag: Tag, size: int | None) -> None:
        memory = None if size is None else memoryview(bytearray(size))

        def arrive(data: memoryview) -> None:
            self.arrived.append((tag, bytes(data)))
            self._transport.notify()

        self._transport.call(lambda: self._transport.receive(peer, tag, memory, arrive))

    def wait(self, count: int, seconds: float = 20.0) -> None:
        self._transport.wait_for(lambda: len(self.arrived) == count, seconds)


def send(transport: RankTransport, peer: int, tag: Tag, data: bytes, priority: float = 0.0) -> None:
    transport.call(lambda: transport.send(peer, tag, memoryview(data), priority, transport.notify))


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES, PIECE_BYTES + 1, 3_000_000])
@pytest.mark.parametrize("is_early", [False, True])
@pytest.mark.parametrize("is_sized", [False, True])
def test_every_message_arrives_whole(ranks: Ring, size: int, is_early: bool, is_sized: bool) -> None:
    data = os.urandom(size)
    inbox = Inbox(ranks[2])
    tags = [Tag(1, 1, peer) for peer in range(2)]
    if not is_early:
        for peer, tag in enumerate(tags):
            inbox.expect(peer, tag, size if is_sized else None)
    for peer, tag in enumerate(tags):
        send(ranks[peer], 2, tag, data)
    if is_early:
        time.sleep(0.05)
        for peer, tag in enumerate(tags):
            inbox.expect(peer, tag, size if is_sized else None)
    inbox.wait(2)
    assert sorted(inbox.arrived) == [(tag, data) for tag in tags]


def test_an_urgent_message_overtakes_a_large_one(pair: list[SocketTransport]) -> None:
    inbox = Inbox(pair[1])
    large, urgent, later = Tag(1, 1, 0), Tag(2, 1, 0), Tag(3, 2, 0)
    data = bytes(8 << 20)
    for tag, size in ((large, len(data)), (urgent, 8), (later, 8)):
        inbox.expect(0, tag, size)

    has_sent = threading.Event()
    pair[1].call(lambda: has_sent.wait(30) and None)  # the large message is larger than the buffers of the kernel

    def send_all() -> None:
        pair[0].send(1, large, memoryview(data), 1.0, pair[0].notify)
        pair[0].send(1, later, memoryview(bytes(8)), -1.0, pair[0].notify)
        pair[0].send(1, urgent, memoryview(bytes(8)), 0.0, pair[0].notify)
        has_sent.set()

    pair[0].call(send_all)
    inbox.wait(3)
    assert [tag for tag, _ in inbox.arrived] == [urgent, large, later]  # a later step waits for the earlier one


@contextmanager
def connected(segment: int | None = None) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two ends of a connection on the loopback interface, with segments of at most `segment` bytes."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as sender:
        if segment is not None:
            sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, segment)
        sender.connect(listener.getsockname())
        receiver, _ = listener.accept()
        with receiver:
            yield sender, receiver


def test_the_send_buffer_holds_two_segments() -> None:
    """With less, a receiver delays its acknowledgements, and each takes 40 ms."""
    for segment in (1448, 8948):  # of usual frames, and of large ones
        with connected(segment) as (sender, _):
            assert SendBuffer(sender).bytes == LEAST_BYTES
    with connected() as (sender, _):
        segment = sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)
        assert segment > LEAST_BYTES
        assert SendBuffer(sender).bytes == 2 * segment


def test_the_send_buffer_grows_while_it_slows_the_connection_down() -> None:
    with connected() as (sender, receiver):
        buffer = SendBuffer(sender)
        buffer._set(1)  # the kernel takes its own least size
        sizes = [buffer.bytes]
        memory = bytearray(1 << 16)
        for _ in range(10 * PERIOD):
            sender.sendall(memory)
            left = len(memory)
            while left:
                left -= receiver.recv_into(memory, left)
            buffer.grow()
            sizes.append(buffer.bytes)
    assert sizes == sorted(sizes)
    assert 1 < sizes[-1] < 1 << 24


def test_a_message_of_another_size_ends_the_transport_with_a_sentence(ranks: Ring) -> None:
    inbox = Inbox(ranks[1])
    inbox.expect(0, Tag(1, 1, 0), 5)
    send(ranks[0], 1, Tag(1, 1, 0), b"four")
    with pytest.raises(
        TransportError, match="rank 0 sent 4 bytes where 5 were expected; all ranks need the same model"
    ):
        inbox.wait(1)


@pytest.mark.parametrize("is_orderly", [False, True])
def test_the_end_of_a_rank_is_noticed_by_all_within_a_second(pair: list[SocketTransport], is_orderly: bool) -> None:
    inbox = Inbox(pair[1])
    inbox.expect(0, Tag(1, 1, 0), 5)
    began = time.monotonic()
    if is_orderly:
        pair[0].close()
    else:
        pair[0].call(lambda: pair[0]._peers[1].connection.shutdown(socket.SHUT_RDWR))
    with pytest.raises(TransportError, match="rank 0 closed the connection; it has probably ended or failed"):
        inbox.wait(1)
    assert time.monotonic() - began < 1.0


def test_a_rank_that_has_finished_may_leave_before_the_others() -> None:
    group = socket_group(3)
    group[0].close()
    time.sleep(0.1)  # the others have heard of it
    inbox = Inbox(group[1])
    inbox.expect(2, Tag(1, 1, 0), 4)
    send(group[2], 1, Tag(1, 1, 0), b"late")
    inbox.wait(1)
    send(group[1], 0, Tag(1, 1, 0), b"none")
    with pytest.raises(TransportError, match="rank 0 closed the connection"):
        group[1].wait_for(lambda: False, 20.0)
    for transport in group:
        transport.close()


def test_a_failed_action_ends_the_transport_with_its_reason(ranks: Ring) -> None:
    def fail() -> None:
        raise ValueError("no such thing")

    ranks[0].call(fail)
    with pytest.raises(TransportError, match=r"Rank 0 .*no such thing"):
        ranks[0].wait_for(lambda: False, 20.0)
    with pytest.raises(TransportError):
        ranks[1].wait_for(lambda: False, 20.0)


def test_a_silent_rank_is_given_up_after_the_stated_time(ranks: Ring) -> None:
    with pytest.raises(TransportError, match=r"Rank 0 waited 0\.1 seconds for gradients of the other ranks"):
        ranks[0].wait_for(lambda: False, 0.1)


def test_only_holders_of_the_token_are_let_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stranger that connects first, silent or with another token, is turned away; the ranks connect as ever."""
    monkeypatch.setattr(sockets, "GREETING_SECONDS", 0.2)
    strangers: list[socket.socket] = []
    shared = gathers(2)
    calls = iter(range(9))

    def gather_of_rank_1(text: str) -> Sequence[str]:
        texts = shared[1](text)
        if next(calls) == 1:  # rank 0 listens by now, and rank 1 has not connected yet
            host, port = texts[0].split(" ")
            for greeting in (b"", b"x" * 32 + bytes([1, 0, 0, 0])):
                strangers.append(socket.create_connection((host, int(port))))
                strangers[-1].sendall(greeting)
        return texts

    gather_of = [shared[0], gather_of_rank_1]
    group = on_all_ranks(2, lambda rank: connect_sockets(rank, 2, "127.0.0.1", gather_of[rank]))
    inbox = Inbox(group[0])
    inbox.expect(1, Tag(1, 1, 0), 2)
    send(group[1], 0, Tag(1, 1, 0), b"ok")
    inbox.wait(1)
    assert [stranger.recv(1) for stranger in strangers] == [b"", b""]
    for transport in group:
        transport.close()


def test_a_rank_that_does_not_connect_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "CONNECT_SECONDS", 0.2)
    with pytest.raises(
        TransportError, match=r"Rank 0 at 127\.0\.0\.1 reached no connection with rank 1 within 0\.2 seconds"
    ):
        connect_sockets(0, 2, "127.0.0.1", lambda text: [text, text])


def test_a_rank_listens_on_the_address_by_which_it_reaches_rank_0() -> None:
    assert own_address("localhost") in ("127.0.0.1", "::1")
    assert own_address("127.0.0.1") == "127.0.0.1"
