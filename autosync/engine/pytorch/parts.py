"""Parts of any size that go from rank to rank: to all ranks, directly or by relays, or to a server."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import final

from autosync.engine.pytorch.transport import Action, RankTransport, Tag
from autosync.layout.gather import Handing


@final
class PartExchange:
    """Hands the parts of replicas on, once per step. A part is bytes, and has any size.

    After a step, `parts` has this rank's own part and all parts that reached the rank, by the replica that they come
    from.
    """

    def __init__(self, transport: RankTransport, ranks: Sequence[int], handings: Iterable[Handing]) -> None:
        """`ranks[r]` is the rank of replica r. All ranks make their exchanges in the same order."""
        self.parts: dict[int, memoryview] = {}
        self._transport = transport
        self._number = transport.number_exchange()
        self._ranks = ranks
        self._replica = ranks.index(transport.rank)
        self._receives: dict[int, int] = {}
        """By the replica that a part comes from, the replica that hands it to this rank."""
        self._targets: dict[int, list[int]] = {}
        """By the replica that a part comes from, the replicas that this rank hands it to."""
        for origin, source, target in handings:
            if target == self._replica:
                self._receives[origin] = source
            if source == self._replica:
                self._targets.setdefault(origin, []).append(target)
        self._left = 0
        """Messages of this step that this rank has not received or not sent yet."""
        self._step = 0
        self._priority = 0.0
        self._done: Action = _nothing

    @property
    def in_order(self) -> list[memoryview]:
        """The parts of all replicas, on a rank that all of them have reached."""
        return [self.parts[origin] for origin in range(len(self._ranks))]

    def start(self, step: int, priority: float, part: memoryview, done: Action, sender: int | None = None) -> None:
        """Begin step `step` with this rank's `part`; call in the transport's thread.

        `done` runs once all parts have arrived and all messages are sent. With a `sender`, the same on all ranks, only
        the part of this replica travels.
        """
        self._step, self._priority, self._done = step, priority, done
        origins = range(len(self._ranks)) if sender is None else (sender,)
        receives = {origin: self._receives[origin] for origin in origins if origin in self._receives}
        self._left = len(receives) + sum(len(self._targets.get(origin, ())) for origin in origins) + 1
        self.parts = {}
        if self._replica in origins:
            self._take(self._replica, part)
        else:
            self._end_message()
        for origin, source in receives.items():
            tag = Tag(self._number, step, origin)
            self._transport.receive(self._ranks[source], tag, None, partial(self._take, origin))

    def _take(self, origin: int, part: memoryview) -> None:
        """Keep the part of replica `origin`, and hand it to the replicas that get it from this rank."""
        self.parts[origin] = part
        for target in self._targets.get(origin, ()):
            tag = Tag(self._number, self._step, origin)
            self._transport.send(self._ranks[target], tag, part, self._priority, self._end_message)
        self._end_message()

    def _end_message(self) -> None:
        self._left -= 1
        if not self._left:
            self._done()


def _nothing() -> None:
    """Do nothing."""
