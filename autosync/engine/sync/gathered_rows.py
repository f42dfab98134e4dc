"""All-reduce of a sparse shard: every replica gathers all replicas' touched rows and updates its own table."""

from collections.abc import Sequence
from typing import Any, final

from autosync.engine.state import Rows, Scalars
from autosync.engine.sync.gathered import gathered
from autosync.engine.sync.member import Members
from autosync.engine.sync.row_wire import row_wire
from autosync.engine.sync.update import Update
from autosync.engine.sync.whole import all_reduced
from autosync.engine.sync.wire import PLAIN
from autosync.layout.shards import Shard


@final
class GatheredRows:
    """One shard of a sparse variable, a copy on every replica. All add up the same rows in the same order."""

    def __init__(self, shard: Shard, members: Members, scalars: Sequence[Scalars], initial: Sequence[Any]) -> None:
        self.shard = shard
        self._members = members
        segments = scalars[0].optimizer.segments([shard])
        self.tables = [Rows(of, value, segments) for of, value in zip(scalars, initial, strict=True)]

    def pull(self, replica: int, ids: Any) -> Any:
        """Rows `ids` (n,), counted from the shard's first row, out of the replica's own table."""
        return self.tables[replica].lookup(ids)

    def push(self, ids: Sequence[Any], gradients: Sequence[Any]) -> list[Update]:
        """The mean over replicas of their row gradients, an update for every replica's table."""
        import tensorflow as tf

        numbers = gathered(self._members, ids)
        rows = gathered(self._members, gradients, row_wire(self.shard.synchronizer.compressor))
        updates = []
        for replica, (table, *arrived) in enumerate(zip(self.tables, numbers, rows, strict=True)):
            with tf.device(table.device):
                all_ids, all_gradients = (tf.concat(each, 0) for each in arrived)
                mean = table.summed(all_ids, all_gradients * (1.0 / len(ids)))
            updates.append(Update(table, mean, counts=replica == 0))
        return updates

    def apart(self, ids: Sequence[Any], gradients: Sequence[Any]) -> list[Update]:
        """An update of every replica's table by its own row gradients."""
        return [
            Update(table, table.summed(*own), counts=replica == 0)
            for replica, (table, *own) in enumerate(zip(self.tables, ids, gradients, strict=True))
        ]

    def value_means(self) -> list[tuple[Rows, Any]]:
        """Every replica's table, and on its device the mean of all replicas' values, whole, by a ring."""
        import tensorflow as tf

        values = []
        for table in self.tables:
            with tf.device(table.device):
                values.append(tf.reshape(table.value.read_value(), [-1]))
        means = []
        for table, mean in zip(self.tables, all_reduced(self._members, values, "ring", PLAIN), strict=True):
            with tf.device(table.device):
                means.append((table, tf.reshape(mean, table.shape)))
        return means
