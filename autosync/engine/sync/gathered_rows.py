"""All-reduce of a sparse shard: every replica gathers all replicas' touched rows and updates its own table."""

from collections.abc import Sequence
from typing import Any, final

from autosync.engine.state import Rows, Scalars
from autosync.engine.sync.row_wire import rows_at
from autosync.engine.sync.update import Update
from autosync.layout.shards import Shard


@final
class GatheredRows:
    """One shard of a sparse variable, a copy on every replica. All add up the same rows in the same order."""

    def __init__(self, shard: Shard, scalars: Sequence[Scalars], initial: Sequence[Any]) -> None:
        self.shard = shard
        self.tables = [Rows(each, value) for each, value in zip(scalars, initial, strict=True)]

    def pull(self, replica: int, ids: Any) -> Any:
        """Rows `ids` (n,), counted from the shard's first row, out of the replica's own table."""
        return self.tables[replica].lookup(ids)

    def push(self, ids: Sequence[Any], gradients: Sequence[Any]) -> list[Update]:
        """The mean over replicas of their row gradients, an update for every replica's table."""
        import tensorflow as tf

        devices = [table.device for table in self.tables]
        updates = []
        for replica, table in enumerate(self.tables):
            arrived = rows_at(table.device, devices, gradients, self.shard.synchronizer.compressor)
            with tf.device(table.device):
                all_ids, all_gradients = tf.concat(list(ids), 0), tf.concat(arrived, 0)
                mean = table.summed(all_ids, all_gradients * (1.0 / len(ids)))
            updates.append(Update(table, mean, counts=replica == 0))
        return updates
