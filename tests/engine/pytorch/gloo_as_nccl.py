"""gloo in the place of NCCL, to run the code for NCCL without a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import torch


@final
class GlooAsNccl:
    """gloo with two rules of NCCL: it has no tags, and posts the messages of a round together."""

    supports_coalescing = True

    def __init__(self, backend: Any) -> None:
        self._backend = backend
        self._round: list[Callable[[], Any]] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def _start_coalescing(self) -> None:
        assert self._round is None
        self._round = []

    def send(self, arrays: list[torch.Tensor], peer: int, _: int) -> None:
        assert self._round is not None, "a message alone may deadlock"
        self._round.append(lambda: self._backend.send(arrays, peer, 0))

    def recv(self, arrays: list[torch.Tensor], peer: int, _: int) -> None:
        assert self._round is not None, "a message alone may deadlock"
        self._round.append(lambda: self._backend.recv(arrays, peer, 0))

    def _end_coalescing(self) -> _Works:
        assert self._round is not None
        posted, self._round = self._round, None
        return _Works([post() for post in posted])


class _Works:
    def __init__(self, works: list[Any]) -> None:
        self._works = works

    def wait(self) -> None:
        for work in self._works:
            work.wait()
