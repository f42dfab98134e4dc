"""Parameter server: a shard lives on one device; replicas pull its value and push their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from autosync.engine.layout import Shard
from autosync.engine.state import Block, Rows, Scalars
from autosync.engine.sync.compressed import server_exchange
from autosync.engine.sync.exchange import ServerPlace
from autosync.engine.sync.row_wire import rows_at
from autosync.engine.sync.update import Update
from autosync.spec import ParameterServer

__all__ = ["DenseServer", "SparseServer"]


@final
class DenseServer:
    """One dense shard on its server."""

    def __init__(self, place: ServerPlace, scalars: Scalars, initial: Any) -> None:
        import tensorflow as tf

        synchronizer = place.shard.synchronizer
        assert isinstance(synchronizer, ParameterServer)
        self.shard = place.shard
        self.exchange = server_exchange(place)
        self._place = place
        self._local_copy = synchronizer.local_copy
        with tf.device(scalars.device):
            self.block = Block(scalars, tf.reshape(initial, [-1]))

    def pull(self) -> list[Any]:
        """The shard's value for every replica. It crosses to another node once a replica, or once with a local copy."""
        import tensorflow as tf

        with tf.device(self.block.device):
            value = tf.reshape(self.block.read(), self.shard.shape)
        copies: dict[str, Any] = {}
        pulled = []
        for member in self._place.members:
            if not self._local_copy or member.node == self._place.server.node:
                pulled.append(value)
                continue
            if member.node not in copies:
                with tf.device(member.gateway):
                    copies[member.node] = tf.identity(value)
            pulled.append(copies[member.node])
        return pulled

    def push(self, gradients: Sequence[Any]) -> list[Update]:
        """The update by the mean of the replicas' gradients."""
        return [Update(self.block, self.exchange.mean(gradients))]


@final
class SparseServer:
    """One shard of a sparse variable on its server: only touched rows travel."""

    def __init__(self, shard: Shard, scalars: Scalars, initial: Any, replicas: Sequence[str]) -> None:
        """`replicas` are the devices that push."""
        self.shard = shard
        self.rows = Rows(scalars, initial)
        self._replicas = tuple(replicas)

    def pull(self, ids: Sequence[Any]) -> list[Any]:
        """For every replica its rows `ids` (n,), counted from the shard's first row."""
        return [self.rows.lookup(each) for each in ids]

    def push(self, ids: Sequence[Any], gradients: Sequence[Any]) -> list[Update]:
        """The update by the mean over replicas of their row gradients."""
        import tensorflow as tf

        arrived = rows_at(self.rows.device, self._replicas, gradients, self.shard.synchronizer.compressor)
        with tf.device(self.rows.device):
            all_ids, all_gradients = tf.concat(list(ids), 0), tf.concat(arrived, 0)
            return [Update(self.rows, self.rows.summed(all_ids, all_gradients * (1.0 / len(ids))))]
