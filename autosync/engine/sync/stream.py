"""Streaming: pieces of servers' shards are pushed, updated and sent back one after the other, as they become ready."""

from collections import deque
from collections.abc import Sequence
from typing import Any, final

from autosync.engine.sync.parameter_server import DenseServer

WINDOW_BYTES, WINDOW_PIECES = 3 << 19, 5
"""The most that a replica has under way to one server and back: so many bytes, or so many pieces if they are large."""


def stream(servers: Sequence[DenseServer], gradients: Sequence[Sequence[Sequence[Any]]]) -> None:
    """Update all of `servers` by the mean of `gradients[s][r]`, a list of shards' gradients, and fill their copies.

    The transport sends all that is ready side by side, so that all of it would arrive at the end, and meanwhile nothing
    could go back. So a replica holds back what it pushes to a server until enough of what it pushed before has come
    back, updated: that costs no message of its own.
    """
    windows: dict[tuple[str, str], _Window] = {}
    pieces = [server.pieces(of_server) for server, of_server in zip(servers, gradients, strict=True)]
    for server in servers:
        server.begin()
    for number, piece in _in_order(servers, [len(each) for each in pieces]):
        server, parts = servers[number], list(pieces[number][piece])
        if not server.streams:
            server.update_piece(piece, parts)
            continue
        for index, device in enumerate(server.sources):
            if device != server.device:
                window = windows.setdefault((device, server.device), _Window(device))
                parts[index] = window.held_back(parts[index])
        for device, arrived in server.update_piece(piece, parts).items():
            windows[device, server.device].note(arrived)
    for server in servers:
        server.store()


def _in_order(servers: Sequence[DenseServer], counts: Sequence[int]) -> list[tuple[int, int]]:
    """(server, piece) as they become ready; the first pieces first of what does so at once."""
    ready = [server.shards[-1].variable.ready_order for server in servers]
    found = [(number, piece) for number, count in enumerate(counts) for piece in range(count)]
    return sorted(found, key=lambda each: (ready[each[0]], each[1], each[0]))


@final
class _Window:
    """What one replica has pushed to one server, and what has come back of it."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._under_way: deque[tuple[int, Any]] = deque()
        self._bytes = 0
        self._awaited: list[Any] = []

    def held_back(self, tensor: Any) -> Any:
        """`tensor`, on the replica, once there is room for it."""
        import tensorflow as tf

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
        """Note what comes back of the tensor that was pushed last."""
        self._under_way.append((_bytes(arrived), arrived))
        self._bytes += self._under_way[-1][0]


def _bytes(tensor: Any) -> int:
    return int(tensor.shape.num_elements()) * int(tensor.dtype.size)
