"""Streams servers' shards in pieces, which are pushed, updated and sent back one after another as they become ready."""

from collections import deque
from collections.abc import Sequence
from typing import Any, final

import tensorflow as tf

from autosync.engine.tensorflow.sync.parameter_server import DenseServer

WINDOW_BYTES, WINDOW_PIECES = 3 << 19, 5
"""The limit of data in flight from a replica to a server and back: bytes, or a number of large pieces."""


def stream(servers: Sequence[DenseServer], gradients: Sequence[Sequence[Sequence[Any]]]) -> None:
    """Update all `servers` by the mean of `gradients[s][r]`, a list of shards' gradients, and fill their copies.

    The transport sends all ready tensors in parallel, so all of them would arrive at the end, and nothing could return
    meanwhile. A replica therefore holds back a piece until enough of its earlier pieces have come back updated. This
    flow control needs no messages of its own.
    """
    windows: dict[tuple[str, str], _Window] = {}
    pieces = [server.pieces(of_server) for server, of_server in zip(servers, gradients, strict=True)]
    for server in servers:
        server.begin()
    for number, piece in _in_order(servers, [len(of_server) for of_server in pieces]):
        server, parts = servers[number], list(pieces[number][piece])
        if not server.streams:
            server.update_piece(piece, parts)
            continue
        for index, device in enumerate(server.sources):
            if device != server.device:
                window = windows.setdefault((device, server.device), _Window(device))
                parts[index] = window.hold_back(parts[index])
        for device, arrived in server.update_piece(piece, parts).items():
            windows[device, server.device].note(arrived)
    for server in servers:
        server.store()


def _in_order(servers: Sequence[DenseServer], counts: Sequence[int]) -> list[tuple[int, int]]:
    """All (server, piece) in the order in which they become ready; lower pieces first if they are ready together."""
    ready = [server.shards[-1].variable.ready_order for server in servers]
    pairs = [(number, piece) for number, count in enumerate(counts) for piece in range(count)]
    return sorted(pairs, key=lambda pair: (ready[pair[0]], pair[1], pair[0]))


@final
class _Window:
    """The pieces that one replica has pushed to one server, and their updated values that have come back."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._under_way: deque[tuple[int, Any]] = deque()
        self._bytes = 0
        self._awaited: list[Any] = []

    def hold_back(self, tensor: tf.Tensor) -> tf.Tensor:
        """Return `tensor`, on the replica, once the window has room for it."""
        size, came_back = _bytes(tensor), []
        room = max(WINDOW_BYTES, WINDOW_PIECES * size)
        while self._under_way and self._bytes + size > room:
            freed, arrived = self._under_way.popleft()
            self._bytes -= freed
            came_back.append(arrived)
        self._awaited = came_back or self._awaited
        if not self._awaited:
            return tensor
        with tf.device(self._device), tf.control_dependencies(self._awaited):
            return tf.identity(tensor)

    def note(self, arrived: Any) -> None:
        """Note the tensor that comes back for the piece that was pushed last."""
        self._under_way.append((_bytes(arrived), arrived))
        self._bytes += self._under_way[-1][0]


def _bytes(tensor: tf.Tensor) -> int:
    return int(tensor.shape.num_elements()) * int(tensor.dtype.size)
