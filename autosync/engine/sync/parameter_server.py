"""Parameter server: a shard lives on one device; replicas pull its value and push their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from autosync.engine.layout import Shard
from autosync.engine.placement import Placement
from autosync.engine.state import Block, Rows, Scalars
from autosync.spec import ParameterServer

__all__ = ["DenseServer", "SparseServer"]


@final
class DenseServer:
    """One dense shard on its server."""

    def __init__(self, shard: Shard, scalars: Scalars, initial: Any, placement: Placement) -> None:
        import tensorflow as tf

        assert isinstance(shard.synchronizer, ParameterServer)
        self.shard = shard
        self.synchronizer = shard.synchronizer
        self.placement = placement
        with tf.device(scalars.device):
            self.block = Block(scalars, tf.reshape(initial, [-1]))

    def pull(self, replicas: Sequence[str]) -> list[Any]:
        """The shard's value for every replica. It crosses to another node once a replica, or once with a local copy."""
        import tensorflow as tf

        with tf.device(self.block.device):
            value = tf.reshape(self.block.read(), self.shard.shape)
        home = self.placement.node(self.synchronizer.device)
        copies: dict[str, Any] = {}
        pulled = []
        for replica in replicas:
            node = self.placement.node(replica)
            if not self.synchronizer.local_copy or node == home:
                pulled.append(value)
                continue
            if node not in copies:
                with tf.device(self.placement.gateway(node)):
                    copies[node] = tf.identity(value)
            pulled.append(copies[node])
        return pulled

    def push(self, replicas: Sequence[str], gradients: Sequence[Any]) -> None:
        """Sum the replicas' gradients, first on each other node, then on the server, and apply the mean."""
        import tensorflow as tf

        home = self.placement.node(self.synchronizer.device)
        by_node: dict[str, list[Any]] = {}
        for replica, gradient in zip(replicas, gradients, strict=True):
            by_node.setdefault(self.placement.node(replica), []).append(gradient)
        arriving = []
        for node, parts in by_node.items():
            if node != home and len(parts) > 1:
                with tf.device(self.placement.gateway(node)):
                    parts = [tf.add_n(parts)]
            arriving += parts
        with tf.device(self.block.device):
            total = tf.add_n(arriving) if len(arriving) > 1 else arriving[0]
            self.block.apply(tf.reshape(total * (1.0 / len(replicas)), [-1]))


@final
class SparseServer:
    """One shard of a sparse variable on its server: only touched rows travel."""

    def __init__(self, shard: Shard, scalars: Scalars, initial: Any) -> None:
        self.shard = shard
        self.rows = Rows(scalars, initial)

    def pull(self, ids: Sequence[Any]) -> list[Any]:
        """For every replica its rows `ids` (n,), counted from the shard's first row."""
        return [self.rows.lookup(each) for each in ids]

    def push(self, ids: Sequence[Any], gradients: Sequence[Any]) -> None:
        """Apply the mean over replicas of their row gradients."""
        import tensorflow as tf

        with tf.device(self.rows.device):
            all_ids, all_gradients = tf.concat(list(ids), 0), tf.concat(list(gradients), 0)
            self.rows.apply(all_ids, all_gradients * (1.0 / len(ids)))
