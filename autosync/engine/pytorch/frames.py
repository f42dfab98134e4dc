"""Frames between the client of a session and its ranks: a JSON document, and bytes behind it."""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

_SIZES = struct.Struct("<QQ")  # bytes of the document, bytes behind it


def send_frame(connection: socket.socket, document: dict[str, Any], data: bytes = b"") -> None:
    """Send a frame. Raises `OSError`."""
    text = json.dumps(document).encode()
    connection.sendall(_SIZES.pack(len(text), len(data)) + text)
    if data:
        connection.sendall(data)


def receive_frame(connection: socket.socket, most_bytes: int | None = None) -> tuple[dict[str, Any], bytes]:
    """Receive a frame. Raises `OSError` when the connection ends or fails.

    With `most_bytes`, a larger frame is an error: the sender may be a stranger, whose sizes must not be believed.
    """
    text_bytes, data_bytes = _SIZES.unpack(_receive(connection, _SIZES.size))
    if most_bytes is not None and text_bytes + data_bytes > most_bytes:
        raise ConnectionError(f"a frame of {text_bytes + data_bytes} bytes")
    document: dict[str, Any] = json.loads(_receive(connection, text_bytes))
    return document, bytes(_receive(connection, data_bytes))


def _receive(connection: socket.socket, size: int) -> bytearray:
    received = bytearray(size)
    view = memoryview(received)
    while len(view):
        count = connection.recv_into(view)
        if not count:
            raise ConnectionError("the other end closed the connection")
        view = view[count:]
    return received
