"""One order of exchanges in a step, the same on all ranks."""

from __future__ import annotations

from typing import final

from autosync.engine.pytorch.transport import Action


@final
class StepOrder:
    """Begins exchanges in the order of their numbers, each once per step, although their gradients come in any order.

    A process group needs this: it matches the messages of two ranks, and the collectives of all ranks, by their order.
    """

    def __init__(self) -> None:
        self._size = 0
        self._next = 0
        self._offered: dict[int, Action] = {}

    def number(self) -> int:
        """A number for a new exchange, the next of the order."""
        self._size += 1
        return self._size - 1

    def offer(self, number: int, begin: Action) -> None:
        """Call `begin` once all earlier exchanges of the step have begun."""
        self._offered[number] = begin
        while self._next in self._offered:
            begin_next = self._offered.pop(self._next)
            self._next = (self._next + 1) % self._size
            begin_next()
