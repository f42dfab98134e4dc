"""Parameter server: a shard lives on one device; replicas pull its value and push their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from autosync.engine.layout import Shard
from autosync.engine.state import Block, Rows, Scalars
from autosync.engine.sync.compressed import server_exchange
from autosync.engine.sync.exchange import ServerPlace
from autosync.engine.sync.member import Member
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
        self.member = place.server
        self._local_copy = synchronizer.local_copy
        with tf.device(scalars.device):
            self.block = Block(scalars, tf.reshape(initial, [-1]))

    def pull(self, members: Sequence[Member]) -> list[Any]:
        """The shard's value for each of the replicas `members`.

        It crosses to another node once a replica, or once with a local copy.
        """
        import tensorflow as tf

        with tf.device(self.block.device):
            value = tf.reshape(self.block.read(), self.shard.shape)
        copies: dict[str, Any] = {}
        pulled = []
        for member in members:
            if not self._local_copy or member.node == self.member.node:
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

    def pull(self, replica: int, ids: Any) -> Any:
        """Rows `ids` (n,) for a replica, counted from the shard's first row."""
        del replica
        return self.rows.lookup(ids)

    def push(self, ids: Sequence[Any], gradients: Sequence[Any]) -> list[Update]:
        """The update by the mean over replicas of their row gradients."""
        import tensorflow as tf

        arrived = rows_at(self.rows.device, self._replicas, gradients, self.shard.synchronizer.compressor)
        with tf.device(self.rows.device):
            all_ids, all_gradients = tf.concat(list(ids), 0), tf.concat(arrived, 0)
            return [Update(self.rows, self.rows.summed(all_ids, all_gradients * (1.0 / len(ids))))]
