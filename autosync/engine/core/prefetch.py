"""Prefetches the batches of a shard that a worker process reads itself."""

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any, final

import numpy as np

Reader = Callable[[int, int], Iterator[list[Any]]]
"""A function from (shard, shards) to the flat batches of that shard, each a list of arrays."""

Spec = tuple[tuple[int, ...], str]
"""The shape without the first axis, and the dtype, of one array of a batch."""

LOOK_SECONDS = 0.5
"""Seconds between a reader's checks for `close` while its queue is full."""


@final
class ReadAhead:
    """The items of an iterator, read by a thread that is at most `ahead` items in front. `next` raises its error."""

    def __init__(self, opened: Callable[[], Iterator[Any]], ahead: int = 2) -> None:
        self._waiting: queue.Queue[tuple[str, Any]] = queue.Queue(ahead)
        self._opened = opened
        self._closed = threading.Event()
        self._ended = False
        threading.Thread(target=self._read, daemon=True, name="autosync-read-ahead").start()

    def next(self) -> Any:
        """Return the next item, or None after the last one."""
        if self._ended:
            return None
        kind, value = self._waiting.get()
        self._ended = kind != "item"
        if kind == "error":
            raise value
        return value

    def close(self) -> None:
        """Let the thread end at the next item it reads."""
        self._closed.set()

    def _read(self) -> None:
        try:
            for item in self._opened():
                self._put("item", item)
                if self._closed.is_set():
                    return
            self._put("end", None)
        except BaseException as error:  # `next` raises it
            self._put("error", error)

    def _put(self, kind: str, value: Any) -> None:
        while not self._closed.is_set():
            with contextlib.suppress(queue.Full):
                self._waiting.put((kind, value), timeout=LOOK_SECONDS)
                return


@final
class ShardBatches:
    """The prefetched batches of one shard, each as [number of examples that count, *arrays].

    After the shard's end, the first example of its last batch is repeated with a count of 0, so that the replica takes
    part in steps until the other shards have ended too.
    """

    def __init__(self, read: Reader, shard: int, shards: int) -> None:
        self._where = f"Shard {shard} of {shards}"
        self._batches = ReadAhead(lambda: read(shard, shards))
        self._last: list[Any] | None = None

    def close(self) -> None:
        self._batches.close()

    def next(self) -> list[Any]:
        """Return the next batch. Raises `ValueError` for a shard without batches."""
        batch = self._batches.next()
        if batch is not None:
            self._last = [array[:1] for array in batch]
            return [np.int64(len(batch[0])), *batch]
        if self._last is None:
            raise ValueError(f"{self._where} has no batch; every replica needs at least one.")
        return [np.int64(0), *self._last]
