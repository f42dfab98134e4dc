"""A process that sends one plain TCP flow and receives another, to measure the best goodput of a link."""

from __future__ import annotations

import socket
import threading
import time
from typing import Any

from studies.by_hand.peers.answering import answer

PIECE_BYTES = 1 << 20


def main() -> None:
    listener = socket.socket()
    ends: dict[str, socket.socket] = {}

    def listen(_: Any) -> dict[str, int]:
        listener.bind(("0.0.0.0", 0))
        listener.listen()
        return {"port": listener.getsockname()[1]}

    def connect(question: dict[str, Any]) -> None:
        ends["to"] = socket.create_connection((question["host"], question["port"]))
        ends["from"] = listener.accept()[0]

    def flow(question: dict[str, Any]) -> dict[str, float]:
        """Send a flow; return the seconds until the incoming flow is received completely."""
        begin = time.perf_counter()
        sender = threading.Thread(target=_send, args=(ends["to"], question["bytes"]))
        sender.start()
        _receive(ends["from"], question["bytes"])
        seconds = time.perf_counter() - begin
        sender.join()
        return {"seconds": seconds}

    answer({"listen": listen, "connect": connect, "flow": flow})


def _send(end: socket.socket, count: int) -> None:
    piece = memoryview(bytes(PIECE_BYTES))
    while count:
        count -= end.send(piece[: min(count, PIECE_BYTES)])


def _receive(end: socket.socket, count: int) -> None:
    buffer = memoryview(bytearray(PIECE_BYTES))
    while count:
        got = end.recv_into(buffer[: min(count, PIECE_BYTES)])
        assert got, "The sender must not close the flow early."
        count -= got


if __name__ == "__main__":
    main()
