"""All-reduce of a sparse shard: every replica gathers all replicas' touched rows and updates its own table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from autosync.engine.layout import Shard
from autosync.engine.state import Rows, Scalars

__all__ = ["GatheredRows"]


@final
class GatheredRows:
    """One shard of a sparse variable, a copy on every replica. All add up the same rows in the same order."""

    def __init__(self, shard: Shard, scalars: Sequence[Scalars], initial: Sequence[Any]) -> None:
        self.shard = shard
        self.tables = [Rows(each, value) for each, value in zip(scalars, initial, strict=True)]

    def pull(self, ids: Sequence[Any]) -> list[Any]:
        """For every replica its rows `ids` (n,), counted from the shard's first row, out of its own table."""
        return [table.lookup(each) for table, each in zip(self.tables, ids, strict=True)]

    def push(self, ids: Sequence[Any], gradients: Sequence[Any]) -> None:
        """Apply the mean over replicas of their row gradients to every table."""
        import tensorflow as tf

        for table in self.tables:
            with tf.device(table.device):
                all_ids, all_gradients = tf.concat(list(ids), 0), tf.concat(list(gradients), 0)
                table.apply(all_ids, all_gradients * (1.0 / len(ids)))
