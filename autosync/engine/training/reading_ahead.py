"""Data that worker processes read themselves: one shard's batches, read ahead and offered to the step's ops."""

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any, final

Reader = Callable[[int, int], Iterator[list[Any]]]
"""A function from (shard, shards) to that shard's flat batches, each a list of arrays."""

Spec = tuple[tuple[int, ...], str]
"""The shape without the first axis, and the dtype, of one array of a batch."""

LOOK_SECONDS = 0.5
"""Seconds between a reader's looks at whether it is still wanted, when it is ahead."""


@final
class ReadAhead:
    """The items of an iterator, read by a thread that is at most `ahead` items in front; its error is raised here."""

    def __init__(self, opened: Callable[[], Iterator[Any]], ahead: int = 2) -> None:
        self._waiting: queue.Queue[tuple[str, Any]] = queue.Queue(ahead)
        self._opened = opened
        self._closed = threading.Event()
        self._ended = False
        threading.Thread(target=self._read, daemon=True, name="autosync-read-ahead").start()

    def next(self) -> Any:
        """The next item, or None once there is none."""
        if self._ended:
            return None
        kind, value = self._waiting.get()
        self._ended = kind != "item"
        if kind == "error":
            raise value
        return value

    def close(self) -> None:
        """Let the thread end at its next item."""
        self._closed.set()

    def _read(self) -> None:
        try:
            for each in self._opened():
                self._put("item", each)
                if self._closed.is_set():
                    return
            self._put("end", None)
        except BaseException as error:  # it belongs to whoever waits for the next item
            self._put("error", error)

    def _put(self, kind: str, value: Any) -> None:
        while not self._closed.is_set():
            with contextlib.suppress(queue.Full):
                self._waiting.put((kind, value), timeout=LOOK_SECONDS)
                return


@final
class Offer:
    """One shard's batches, offered to this process' ops under `token`, each as [number of examples, *arrays].

    When the shard has ended, its last batch's first example comes again and again, and counts as none: its replica
    takes part until the others have ended too.
    """

    def __init__(self, read: Reader, shard: int, shards: int) -> None:
        from autosync.engine.training.feed import offered

        self._where = f"Shard {shard} of {shards}"
        self._batches = ReadAhead(lambda: read(shard, shards))
        self._last: list[Any] | None = None
        self._kept = self._next  # the table of offers keeps nothing alive, and a bound method is made anew each time
        self.token = offered(self._kept)

    def close(self) -> None:
        self._batches.close()

    def _next(self) -> list[Any]:
        import numpy as np

        batch = self._batches.next()
        if batch is not None:
            self._last = [each[:1] for each in batch]
            return [np.int64(len(batch[0])), *batch]
        if self._last is None:
            raise ValueError(f"{self._where} has no batch; every replica needs at least one.")
        return [np.int64(0), *self._last]
