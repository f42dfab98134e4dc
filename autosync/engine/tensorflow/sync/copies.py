"""Replicas' copies of a parameter server's values, kept from the end of one step to the next."""

from collections.abc import Callable
from typing import Any, final

import tensorflow as tf

from autosync.engine.tensorflow.arrays import end_to_end
from autosync.engine.tensorflow.sync.exchange import ServerPlace
from autosync.engine.tensorflow.sync.member import Member


@final
class Copies:
    """A flat array on the device of each replica, except on the server's own device.

    A server sends updated values while gradients of other shards still arrive, so that both directions of its link are
    busy and the next step finds all values in place. The copies take the memory of all values on every replica between
    steps. Within a step a replica holds the values anyway, and twice while the new values arrive.
    """

    def __init__(self, place: ServerPlace, local_copy: bool, initial: Callable[[str], Any]) -> None:
        """`initial` returns the initial values, flat, as a tensor on a device.

        With `local_copy`, values cross to each other node once, and the node's gateway forwards them.
        """
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
        """Read the flat value on `device`. Call this while a step is traced."""
        with tf.device(device):
            return self.variables[device].value()

    def begin(self) -> None:
        self._arrived = {device: [] for device in self.variables}

    def send(self, piece: Any) -> dict[str, Any]:
        """Send a piece of the new value from the server to all copies; return the arrived tensors by device."""
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
        """Store the arrived pieces, end to end."""
        for device, parts in self._arrived.items():
            whole = end_to_end(parts, device)
            with tf.device(device):
                self.variables[device].assign(whole)
