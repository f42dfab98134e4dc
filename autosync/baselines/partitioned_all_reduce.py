"""Partitioned all-reduce: big dense variables cut, and the shards all-reduced in buckets of 128.

This is AutoDist's `PartitionedAR` builder (`chunk_size=128` shards a group), with another count of shards: the original
cuts axis 0 into its smallest divisor, see `partitioned_parameter_server`. Here big variables are cut into a shard a
server; sparse ones stay whole, since a gather of rows gains nothing by a cut.
"""

from __future__ import annotations

from autosync.baselines.buckets import bucketed
from autosync.baselines.cutting import cuts_by_servers
from autosync.baselines.decisions import strategy_of, variables_in_ready_order
from autosync.spec import ClusterSpec, ModelSpec, Strategy

__all__ = ["partitioned_all_reduce"]

CHUNK_SHARDS = 128


def partitioned_all_reduce(model: ModelSpec, cluster: ClusterSpec) -> Strategy:
    """Dense variables cut along axis 0 by servers, all-reduced in ready order in buckets of 128 shards a dtype."""
    cuts = cuts_by_servers([variable for variable in model.variables if not variable.sparse], cluster)
    return strategy_of(model, cluster, bucketed(variables_in_ready_order(model), _full, cuts), cuts)


def _full(index: int, held_bytes: list[int], next_bytes: int) -> bool:
    del index, next_bytes
    return len(held_bytes) >= CHUNK_SHARDS
