"""The transport between ranks: one thread per rank acts on their messages, which have tags or one common order."""

from __future__ import annotations

import atexit
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

import torch

Action = Callable[[], None]

Arrival = Callable[[memoryview], None]
"""The receiver's action on a complete message, called with its bytes."""


CLOSED = "The connections to the other ranks are closed."
"""The error of a transport that was closed."""


class TransportError(Exception):
    """The transport has failed, so no message arrives any more. The text is a sentence that names the cause."""


class Tag(NamedTuple):
    """The identity of a message between two ranks. Tags are never used twice while a transport lives."""

    exchange: int
    """The number of the exchange (see `RankTransport.number_exchange`)."""
    step: int
    message: int
    """The number of the message in its exchange and step."""


@dataclass
class _Message:
    """A message, which may have arrived in part."""

    memory: memoryview | None
    """None until the first piece of a message of unknown size arrives."""
    missing: int
    """Bytes that have not arrived yet; 0 while the size is unknown."""
    then: Arrival | None = None
    """The action of the receiver; None while the receiver has not asked for the message."""


class Collectives(Protocol):
    """All-reduces of the framework. All ranks call them in the same order."""

    def all_reduce(self, array: torch.Tensor, end: Callable[[Exception | None], None]) -> None:
        """Replace `array` by its sum over all ranks. `end` gets an error or None, in any thread."""
        ...

    @property
    def process_group(self) -> Any:
        """The process group of all ranks."""
        ...

    def close(self) -> None:
        """End all connections."""
        ...


class RankLink(ABC):
    """The link of one rank, whose `rank` is counted from 0, with the other ranks of a group of `size`.

    A transport has one thread. All exchanges and actions run in this thread, so they need no locks; other threads hand
    their work to `call`. An exception in an action, or in the transport itself, ends the transport: `error` is set, all
    connections close, and the failure spreads to the other ranks by their closed connections.
    """

    def __init__(self, rank: int, size: int) -> None:
        self.rank = rank
        self.size = size
        self.device = torch.device("cpu")
        """The device of all arrays that are exchanged."""
        self.error: TransportError | None = None
        """The cause of the end of the transport; None while messages travel."""
        self._progress = threading.Condition()

    @abstractmethod
    def call(self, action: Action) -> None:
        """Run `action` soon in the transport's thread."""

    def close(self) -> None:
        """End the thread and all connections. A second call does no harm."""
        atexit.unregister(self.close)

    def wait_for(self, condition: Callable[[], bool], seconds: float) -> None:
        """Wait, in any thread but the transport's, until `condition` is true; it is looked at after each `notify`.

        Raises `TransportError` when the transport has failed, or when `seconds` have passed.
        """
        with self._progress:
            # A step that is complete counts, even if another rank has failed since.
            if not self._progress.wait_for(lambda: condition() or self.error is not None, seconds):
                raise TransportError(
                    f"Rank {self.rank} waited {seconds:g} seconds for gradients of the other ranks; one of them hangs, "
                    "has stopped, or has not taken this step."
                )
            if condition():
                return
        assert self.error is not None
        raise self.error

    @abstractmethod
    def share(self, data: bytes, seconds: float) -> list[bytes]:
        """Share `data` with all ranks; return the data of all ranks, by rank. All ranks call this together.

        Call it in any thread but the transport's. Raises `TransportError`, also after `seconds`.
        """

    def notify(self) -> None:
        """Have every thread in `wait_for` look at its condition."""
        with self._progress:
            self._progress.notify_all()

    def _fail_by(self, error: Exception) -> None:
        """End because of `error`."""
        text = str(error) if isinstance(error, TransportError) else f"{type(error).__name__}: {error}"
        self._fail(f"Rank {self.rank} can no longer synchronize gradients: {text}")

    def _fail(self, reason: str) -> None:
        """End with `reason`, unless the transport has failed before."""
        with self._progress:
            if self.error is None:
                self.error = TransportError(reason)
            self._progress.notify_all()


class RankTransport(RankLink):
    """A transport whose messages have tags: they may be sent and received in any order."""

    def __init__(self, rank: int, size: int) -> None:
        super().__init__(rank, size)
        self.collectives: Collectives | None = None
        """PyTorch's own all-reduce, on ranks that have connected it."""
        self._exchanges = 0
        self._messages: dict[tuple[int, Tag], _Message] = {}

    @abstractmethod
    def send(self, peer: int, tag: Tag, data: memoryview, priority: float, then: Action) -> None:
        """Send `data` to `peer`, and run `then` once the sender may overwrite `data`.

        Of two waiting messages, the message of the earlier step goes first; within a step, that of the smaller
        `priority`.
        """

    def close(self) -> None:
        super().close()
        if self.collectives is not None:
            self.collectives.close()
            self.collectives = None

    def receive(self, peer: int, tag: Tag, memory: memoryview | None, then: Arrival) -> None:
        """Write the message `tag` of `peer` to `memory`, and call `then` with it once the message is complete.

        The message may have arrived before, because its sender may be a step ahead. With None for `memory`, the message
        may have any size and gets memory of its own.
        """
        early = self._messages.get((peer, tag))
        if early is None:
            self._messages[peer, tag] = _Message(memory, 0 if memory is None else len(memory), then)
            return
        assert early.memory is not None
        if memory is not None:
            self._check_size(peer, len(memory), len(early.memory))
        arrived = early.memory

        def copied(data: memoryview) -> None:
            if memory is not None:
                memory[:] = data
            then(data if memory is None else memory)

        if early.missing:
            early.then = copied  # the pieces that are still to come go to the early memory, too
            return
        del self._messages[peer, tag]
        copied(arrived)

    def number_exchange(self) -> int:
        """A number for a new exchange. All ranks make the same exchanges in the same order, so the numbers agree."""
        self._exchanges += 1
        return self._exchanges

    def share(self, data: bytes, seconds: float) -> list[bytes]:
        exchange = self.number_exchange()
        peers = [peer for peer in range(self.size) if peer != self.rank]
        received, sent = {self.rank: data}, list[int]()

        def arrive(peer: int, memory: memoryview) -> None:
            received[peer] = bytes(memory)
            self.notify()

        def end_send(peer: int) -> None:
            sent.append(peer)
            self.notify()

        def start() -> None:
            for peer in peers:
                self.receive(peer, Tag(exchange, 0, 0), None, partial(arrive, peer))
                self.send(peer, Tag(exchange, 0, 0), memoryview(data), 0.0, partial(end_send, peer))

        self.call(start)
        self.wait_for(lambda: len(received) == self.size and len(sent) == len(peers), seconds)
        return [received[rank] for rank in range(self.size)]

    def _memory(self, peer: int, tag: Tag, size: int) -> memoryview:
        """The memory for an arriving message of `size` bytes: the receiver's, or new memory if there is none yet."""
        message = self._messages.setdefault((peer, tag), _Message(None, 0))
        if message.memory is None:
            message.memory, message.missing = memoryview(bytearray(size)), size
        self._check_size(peer, len(message.memory), size)
        return message.memory

    def _arrived(self, peer: int, tag: Tag, size: int) -> None:
        """Count `size` bytes of a message as arrived; if the message is complete, run the receiver's action."""
        message = self._messages[peer, tag]
        message.missing -= size
        if message.missing == 0 and message.then is not None and message.memory is not None:
            del self._messages[peer, tag]
            message.then(message.memory)

    def _awaits(self, peer: int) -> bool:
        """Whether a message of `peer` has been asked for and is not complete."""
        return any(sender == peer and message.then is not None for (sender, _), message in self._messages.items())

    def _check_size(self, peer: int, expected: int, size: int) -> None:
        if expected != size:
            raise TransportError(
                f"rank {peer} sent {size} bytes where {expected} were expected; all ranks need the same model and the "
                "same strategy."
            )
