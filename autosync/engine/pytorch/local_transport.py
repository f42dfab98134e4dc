"""A transport between threads of one process, for tests and for replicas on one machine."""

from __future__ import annotations

import queue
import threading
from typing import final

from autosync.engine.pytorch.transport import CLOSED, Action, RankTransport, Tag


@final
class LocalTransport(RankTransport):
    """A rank of a group in this process. Messages are copied to the receiver at once, in the order of sending."""

    def __init__(self, rank: int, group: list[LocalTransport]) -> None:
        """Join `group`, the list of all ranks so far; use `local_group`."""
        super().__init__(rank, 0)
        self._group = group
        self._actions: queue.SimpleQueue[Action | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"transport of rank {rank}", daemon=True)

    def begin(self) -> None:
        """Start the thread, once all ranks have joined the group."""
        self.size = len(self._group)
        self._thread.start()

    def call(self, action: Action) -> None:
        self._actions.put(action)

    def send(self, peer: int, tag: Tag, data: memoryview, priority: float, then: Action) -> None:
        del priority
        copy, target = bytes(data), self._group[peer]
        target.call(lambda: target._deliver(self.rank, tag, copy))
        then()

    def _deliver(self, peer: int, tag: Tag, data: bytes) -> None:
        self._memory(peer, tag, len(data))[:] = data
        self._arrived(peer, tag, len(data))

    def _run(self) -> None:
        while (action := self._actions.get()) is not None:
            try:
                action()
            except Exception as error:  # all ranks must learn of every error
                for transport in self._group:
                    transport._fail(f"Rank {self.rank} failed while it synchronized gradients: {error}")
                return

    def close(self) -> None:
        super().close()
        self._fail(CLOSED)
        self._actions.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join()


def local_group(size: int) -> list[LocalTransport]:
    """The transports of a new group of `size` ranks in this process."""
    group: list[LocalTransport] = []
    for rank in range(size):
        group.append(LocalTransport(rank, group))
    for transport in group:
        transport.begin()
    return group
