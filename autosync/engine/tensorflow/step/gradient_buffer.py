"""Buffers, at the servers, the gradients of one replica until those of all other replicas have arrived."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, final

import tensorflow as tf

from autosync.engine.tensorflow.step.placed_model import Placed
from autosync.engine.tensorflow.step.replica import Lookups, Results, id_dtype
from autosync.engine.tensorflow.step.splitting import Key, key_of, split_gradient, split_rows
from autosync.engine.tensorflow.sync.member import Member
from autosync.engine.tensorflow.sync.parameter_server import SparseServer


@final
class GradientBuffer:
    """One replica's gradients of one step, which wait for those of the other replicas.

    A buffer is on the server's device, or on the replica's own node if the node's replicas sum their gradients first.
    """

    def __init__(self, placed: Placed, number: int) -> None:
        self._number = number
        self.members: dict[Key, Member] = {}
        self._held: dict[Key, tuple[Any, ...]] = {}
        replica = placed.members[number]
        shares_node = sum(member.node == replica.node for member in placed.members) > 1
        for server in placed.servers:
            key = key_of(server.shards[0])
            on_own_node = shares_node and replica.node != server.member.node
            self.members[key] = replace(replica, device=replica.gateway if on_own_node else server.member.device)
            elements = sum(shard.elements for shard in server.shards)
            self._held[key] = (self._variable(key, (elements,), server.shards[0].variable.dtype),)
        for key, sparse in placed.sparse.items():
            assert isinstance(sparse, SparseServer)  # a strategy with staleness has only parameter servers
            self.members[key] = replace(replica, device=sparse.rows.device)
            dtype, row = sparse.shard.variable.dtype, sparse.shard.shape[1:]
            self._held[key] = (
                self._variable(key, (None,), id_dtype(sparse.shard.variable)),
                self._variable(key, (None, *row), dtype),
            )

    def _variable(self, key: Key, shape: tuple[int | None, ...], dtype: str) -> Any:
        with tf.device(self.members[key].device):
            start = tf.zeros([size or 0 for size in shape], dtype)
            return tf.Variable(start, trainable=False, shape=tf.TensorShape(shape))

    def put(self, placed: Placed, lookups: Lookups, result: Results) -> None:
        """Write the gradients to the buffer. Call this while the replica's function is traced."""
        device = placed.devices[self._number]
        dense: dict[Key, Any] = {}
        for shards in placed.layout.of_variables:
            if not shards[0].variable.sparse:
                dense |= split_gradient(shards, result, device)
                continue
            for shard, tensors in zip(shards, split_rows(shards, lookups, result, device), strict=True):
                self._assign(key_of(shard), tensors)
        for server in placed.servers:
            keys = [key_of(shard) for shard in server.shards]
            joined = server.join_gradients(self._number, [dense[key] for key in keys])
            with tf.device(device):
                self._assign(keys[0], (tf.reshape(joined, [-1]),))

    def _assign(self, key: Key, tensors: Sequence[tf.Tensor]) -> None:
        with tf.device(self.members[key].device):
            for variable, tensor in zip(self._held[key], tensors, strict=True):
                variable.assign(tensor)

    def gradient(self, key: Key) -> Any:
        """Read the flat gradient of dense shards that are sent together; `key` is that of the first shard."""
        return self.rows(key)[0]

    def rows(self, key: Key) -> tuple[Any, ...]:
        """Read a sparse shard's row numbers and gradients."""
        with tf.device(self.members[key].device):
            return tuple(variable.read_value() for variable in self._held[key])
