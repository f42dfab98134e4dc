"""A relay before a server that stops in the middle of a client's upload, so that a test can kill the client there."""

from __future__ import annotations

import re
import socket
import threading
from typing import final

CHUNK = 4096


@final
class Relay:
    """Forwards bytes until clients have sent `pattern` `times` times; then forwards nothing and sets `stopped`."""

    def __init__(self, endpoint: str, pattern: str, times: int = 1) -> None:
        host, _, port = endpoint.rpartition(":")
        self._to, self._pattern, self._left = (host, int(port)), re.compile(pattern.encode()), times
        self.stopped, self._lock = threading.Event(), threading.Lock()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            server = socket.create_connection(self._to)
            threading.Thread(target=self._pass, args=(client, server, True), daemon=True).start()
            threading.Thread(target=self._pass, args=(server, client, False), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, watched: bool) -> None:
        try:
            while chunk := source.recv(CHUNK):
                if watched and self._stops_at(chunk):
                    while source.recv(CHUNK):  # until the client is gone
                        pass
                    break
                target.sendall(chunk)
        except OSError:
            pass
        finally:
            source.close()
            target.close()

    def _stops_at(self, chunk: bytes) -> bool:
        with self._lock:
            if self._left > 0:
                self._left -= len(self._pattern.findall(chunk))
            if self._left <= 0:
                self.stopped.set()
            return self._left <= 0
