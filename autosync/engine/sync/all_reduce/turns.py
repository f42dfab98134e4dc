"""Turns: of a bucket in pieces, a member sends one after the other, as what it waits for has come."""

from typing import Any, final

from autosync.layout.moves import Span


@final
class Turns:
    """What members of these devices have been sent, round by round.

    The transport sends all that is ready side by side: all pieces of a gradient would arrive at the end, together, and
    nothing could be done with the first of them meanwhile. So who sends of its own gradient does so when all has come
    that was to come to it in the round before. Where nothing was, it waits until what it sent then has arrived, which
    costs an empty message: that is so in the first few rounds only, before means come back.
    """

    def __init__(self, devices: list[str]) -> None:
        self._devices = devices
        self._came: list[list[Any]] = [[] for _ in devices]
        self._arrived: list[list[Any]] = [[] for _ in devices]
        self._awaited: list[list[Any]] = [[] for _ in devices]
        self._added: set[tuple[int, Span]] = set()

    def held_back(self, member: int, span: Span, tensor: Any) -> Any:
        """`tensor`, which the member sends, once it is its turn; sums wait for what is in them anyway."""
        import tensorflow as tf

        if (member, span) in self._added or not self._awaited[member]:
            return tensor
        with tf.device(self._devices[member]), tf.control_dependencies(self._awaited[member]):
            return tf.identity(tensor)

    def note(self, source: int, target: int, span: Span, total: Any) -> None:
        """Note that the target has added what the source sent."""
        self._added.add((target, span))
        self._came[target].append(total)
        self._arrived[source].append(total)

    def note_mean(self, target: int, mean: Any) -> None:
        """Note a mean that is on the target."""
        self._came[target].append(mean)

    def next(self) -> None:
        """The round is over."""
        for member, came in enumerate(self._came):
            self._awaited[member] = came or self._arrived[member] or self._awaited[member]
        self._came = [[] for _ in self._devices]
        self._arrived = [[] for _ in self._devices]
