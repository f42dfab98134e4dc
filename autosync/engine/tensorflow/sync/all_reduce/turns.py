"""Flow control of an all-reduce in pieces: a member sends one piece after another, round by round."""

from typing import Any, final

import tensorflow as tf

from autosync.layout.moves import Span


@final
class Turns:
    """The tensors that arrive at the members on `devices`, round by round.

    The transport sends all ready tensors in parallel, so all pieces of a gradient would arrive together at the end, and
    no member could work on the first piece meanwhile. A member therefore sends its own piece only after it has received
    everything due in the previous round. If nothing was due, the member waits until its own piece of that round has
    arrived, which costs an empty message. This happens only in the first few rounds, before means come back.
    """

    def __init__(self, devices: list[str]) -> None:
        self._devices = devices
        self._came: list[list[Any]] = [[] for _ in devices]
        self._arrived: list[list[Any]] = [[] for _ in devices]
        self._awaited: list[list[Any]] = [[] for _ in devices]
        self._added: set[tuple[int, Span]] = set()

    def hold_back(self, member: int, span: Span, tensor: tf.Tensor) -> tf.Tensor:
        """Return `tensor`, which the member sends, once its turn has come. Sums already wait for their parts."""
        if (member, span) in self._added or not self._awaited[member]:
            return tensor
        with tf.device(self._devices[member]), tf.control_dependencies(self._awaited[member]):
            return tf.identity(tensor)

    def note(self, source: int, target: int, span: Span, total: tf.Tensor) -> None:
        """Note that the target has added the source's tensor to `total`."""
        self._added.add((target, span))
        self._came[target].append(total)
        self._arrived[source].append(total)

    def note_mean(self, target: int, mean: tf.Tensor) -> None:
        """Note a mean that has arrived at the target."""
        self._came[target].append(mean)

    def next(self) -> None:
        """End the round."""
        for member, came in enumerate(self._came):
            self._awaited[member] = came or self._arrived[member] or self._awaited[member]
        self._came = [[] for _ in self._devices]
        self._arrived = [[] for _ in self._devices]
