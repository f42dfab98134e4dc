"""Copies: a parameter server's values as its replicas keep them, from the end of one step to the next."""

from collections.abc import Callable
from typing import Any, final

from autosync.engine.arrays import end_to_end
from autosync.engine.sync.exchange import ServerPlace
from autosync.engine.sync.member import Member


@final
class Copies:
    """A flat array on the device of each replica that is not the server's own.

    A server sends what it has just updated, while gradients of other shards still come in, so that both directions of
    its link are busy and the next step finds all values in place. On every replica this takes the memory of all values
    between steps, too; within one it holds them anyway, and while the new ones arrive, twice.
    """

    def __init__(self, place: ServerPlace, local_copy: bool, initial: Callable[[str], Any]) -> None:
        """`initial` gives the starting values, flat, as a tensor on a device.

        With `local_copy` values cross to each other node once, and are handed on there.
        """
        import tensorflow as tf

        self._server = place.server
        self._local_copy = local_copy
        self.variables: dict[str, Any] = {}
        self._members: list[Member] = []
        self._arrived: dict[str, list[Any]] = {}
        for member in place.members:
            if member.device != place.server.device and member.device not in self.variables:
                with tf.device(member.device):
                    self.variables[member.device] = tf.Variable(initial(member.device), trainable=False)
                self._members.append(member)

    def read(self, device: str) -> Any:
        """The flat value on `device`; called while a step is traced."""
        import tensorflow as tf

        with tf.device(device):
            return self.variables[device].value()

    def begin(self) -> None:
        self._arrived = {device: [] for device in self.variables}

    def send(self, piece: Any) -> dict[str, Any]:
        """Send on a piece of the new value, which is on the server; by device, what arrives."""
        import tensorflow as tf

        at_gateways: dict[str, Any] = {}
        arrived = {}
        for member in self._members:
            sent = piece
            if self._local_copy and member.node != self._server.node:
                if member.node not in at_gateways:
                    with tf.device(member.gateway):
                        at_gateways[member.node] = tf.identity(piece)
                sent = at_gateways[member.node]
            with tf.device(member.device):
                arrived[member.device] = tf.identity(sent)
            self._arrived[member.device].append(arrived[member.device])
        return arrived

    def store(self) -> None:
        """Keep what has arrived, all pieces end to end."""
        import tensorflow as tf

        for device, parts in self._arrived.items():
            whole = end_to_end(parts, device)
            with tf.device(device):
                self.variables[device].assign(whole)
