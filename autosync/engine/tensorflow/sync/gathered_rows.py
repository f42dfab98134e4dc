"""All-reduce of a sparse shard: every replica gathers the touched rows of all replicas and updates its own table."""

from collections.abc import Sequence
from typing import Any, final

import tensorflow as tf

from autosync.engine.tensorflow.state import RowTable, Scalars
from autosync.engine.tensorflow.sync.dense import mean_by_all_reduce
from autosync.engine.tensorflow.sync.gathered import gather_tensors
from autosync.engine.tensorflow.sync.member import Members
from autosync.engine.tensorflow.sync.row_wire import row_wire
from autosync.engine.tensorflow.sync.update import Update
from autosync.engine.tensorflow.sync.wire import PLAIN
from autosync.layout.shards import Shard


@final
class GatheredRows:
    """One shard of a sparse variable, with a copy on every replica. All add the same rows in the same order."""

    def __init__(self, shard: Shard, members: Members, scalars: Sequence[Scalars], initial: Sequence[Any]) -> None:
        self.shard = shard
        self._members = members
        segments = scalars[0].optimizer.segments([shard])
        self.tables = [RowTable(of, value, segments) for of, value in zip(scalars, initial, strict=True)]

    def pull(self, replica: int, ids: tf.Tensor) -> Any:
        """Return the rows `ids` (n,), counted from the shard's first row, of the replica's own table."""
        return self.tables[replica].lookup(ids)

    def push(self, ids: Sequence[tf.Tensor], gradients: Sequence[tf.Tensor]) -> list[Update]:
        """Return an update of every replica's table by the mean over replicas of their row gradients."""
        numbers = gather_tensors(self._members, ids)
        rows = gather_tensors(self._members, gradients, row_wire(self.shard.synchronizer.compressor))
        updates = []
        for replica, (table, *arrived) in enumerate(zip(self.tables, numbers, rows, strict=True)):
            with tf.device(table.device):
                all_ids, all_gradients = (tf.concat(tensors, 0) for tensors in arrived)
                mean = table.sum_by_row(all_ids, all_gradients * (1.0 / len(ids)))
            updates.append(Update(table, mean, counts=replica == 0))
        return updates

    def apart(self, ids: Sequence[tf.Tensor], gradients: Sequence[tf.Tensor]) -> list[Update]:
        """Return an update of every replica's table by the replica's own row gradients."""
        return [
            Update(table, table.sum_by_row(*rows), counts=replica == 0)
            for replica, (table, *rows) in enumerate(zip(self.tables, ids, gradients, strict=True))
        ]

    def value_means(self) -> list[tuple[RowTable, Any]]:
        """Return every replica's table, with the mean of all values on its device. A ring sends whole tables."""
        values = []
        for table in self.tables:
            with tf.device(table.device):
                values.append(tf.reshape(table.value.read_value(), [-1]))
        means = []
        for table, mean in zip(self.tables, mean_by_all_reduce(self._members, values, "ring", PLAIN), strict=True):
            with tf.device(table.device):
                means.append((table, tf.reshape(mean, table.shape)))
        return means
