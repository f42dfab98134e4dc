"""The transport over a process group: one thread executes all exchanges, one after another, on one stream."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any, final

import torch

from autosync.engine.pytorch.message_group import MessageGroup
from autosync.engine.pytorch.transport import CLOSED, Action, RankLink

END_SECONDS = 0.2
"""Time for the end of an action before a closing transport aborts the action."""

ABORT_SECONDS = 20.0
"""Time for the end of an aborted action."""


@final
class GroupTransport(RankLink):
    """One rank of a process group.

    The thread's operations run on a side stream of the device. An action waits there for all operations of its
    caller's stream so far, and `wait_for` makes the stream of its caller wait for the side stream. On the CPU the
    streams are `torch.cpu`'s, which do nothing, because every operation is complete when it returns.

    Memory needs no `record_stream`. Arrays of an exchange are kept until its next step, and an action drops them only
    after the side stream has waited for the stream that used them last.
    """

    def __init__(self, rank: int, size: int, group: MessageGroup, device: torch.device) -> None:
        super().__init__(rank, size)
        self.device = device
        self.group = group
        self._streams: Any = torch.get_device_module(device)
        self._side = self._streams.Stream(device) if device.type == "cuda" else self._streams.Stream()
        self._actions: queue.SimpleQueue[tuple[Any, Action] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"transport of rank {rank}", daemon=True)
        self._thread.start()

    def call(self, action: Action) -> None:
        self._actions.put((self._streams.current_stream(self.device).record_event(), action))

    def wait_for(self, condition: Callable[[], bool], seconds: float) -> None:
        super().wait_for(condition, seconds)
        self._streams.current_stream(self.device).wait_stream(self._side)

    def share(self, data: bytes, seconds: float) -> list[bytes]:
        shared: list[bytes] = []

        def run() -> None:
            shared.extend(self.group.gather_bytes(data))
            self.notify()

        self.call(run)
        self.wait_for(lambda: len(shared) == self.size, seconds)
        return shared

    def close(self) -> None:
        super().close()
        self._actions.put(None)
        if threading.current_thread() is self._thread:
            return
        self._thread.join(END_SECONDS)
        if self._thread.is_alive():
            self.group.abort()
            self._thread.join(ABORT_SECONDS)

    def _run(self) -> None:
        try:
            with self._streams.stream(self._side):
                while (entry := self._actions.get()) is not None:
                    event, action = entry
                    self._side.wait_event(event)
                    action()
                    del entry, event, action  # they may keep arrays
        except Exception as error:  # a waiting thread must learn of every error
            self._fail_by(error)
            self.group.abort()
        finally:
            self._fail(CLOSED)
            self.group.close()
