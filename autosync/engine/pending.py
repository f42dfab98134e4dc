"""Gradients that wait for those of other replicas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, final

from autosync.engine.placed import Key, Placed, key_of, split_gradient, split_rows
from autosync.engine.replica import Lookups, Results, id_dtype
from autosync.engine.sync.member import Member
from autosync.engine.sync.parameter_server import SparseServer

__all__ = ["Pending"]


@final
class Pending:
    """One replica's gradients of one step, where they wait for those of the others.

    That is beside the server, or on the replica's own node where the gradients of its replicas are added up first.
    """

    def __init__(self, placed: Placed, number: int) -> None:
        self._number = number
        self.members: dict[Key, Member] = {}
        self._held: dict[Key, tuple[Any, ...]] = {}
        own = placed.members[number]
        shares_node = sum(member.node == own.node for member in placed.members) > 1
        for server in placed.servers:
            key = key_of(server.shards[0])
            on_own_node = shares_node and own.node != server.member.node
            self.members[key] = replace(own, device=own.gateway if on_own_node else server.member.device)
            elements = sum(shard.elements for shard in server.shards)
            self._held[key] = (self._variable(key, (elements,), server.shards[0].variable.dtype),)
        for key, sparse in placed.sparse.items():
            assert isinstance(sparse, SparseServer)  # a strategy with staleness has parameter servers only
            self.members[key] = replace(own, device=sparse.rows.device)
            dtype, row = sparse.shard.variable.dtype, sparse.shard.shape[1:]
            self._held[key] = (
                self._variable(key, (None,), id_dtype(sparse.shard.variable)),
                self._variable(key, (None, *row), dtype),
            )

    def _variable(self, key: Key, shape: tuple[int | None, ...], dtype: str) -> Any:
        import tensorflow as tf

        with tf.device(self.members[key].device):
            start = tf.zeros([size or 0 for size in shape], dtype)
            return tf.Variable(start, trainable=False, shape=tf.TensorShape(shape))

    def put(self, placed: Placed, found: Lookups, result: Results) -> None:
        """Bring the gradients here; called while the replica's function is traced."""
        import tensorflow as tf

        device = placed.devices[self._number]
        dense: dict[Key, Any] = {}
        for shards in placed.layout:
            if not shards[0].variable.sparse:
                dense |= split_gradient(shards, result, device)
                continue
            for shard, tensors in zip(shards, split_rows(shards, found, result, device), strict=True):
                self._assign(key_of(shard), tensors)
        for server in placed.servers:
            keys = [key_of(shard) for shard in server.shards]
            joined = server.joined(self._number, [dense[key] for key in keys])
            with tf.device(device):
                self._assign(keys[0], (tf.reshape(joined, [-1]),))

    def _assign(self, key: Key, tensors: Sequence[Any]) -> None:
        import tensorflow as tf

        with tf.device(self.members[key].device):
            for variable, tensor in zip(self._held[key], tensors, strict=True):
                variable.assign(tensor)

    def gradient(self, key: Key) -> Any:
        """The gradient, flat, of dense shards that travel together; `key` is the first one's."""
        return self.rows(key)[0]

    def rows(self, key: Key) -> tuple[Any, ...]:
        """A sparse shard's row numbers and gradients."""
        import tensorflow as tf

        with tf.device(self.members[key].device):
            return tuple(variable.read_value() for variable in self._held[key])
