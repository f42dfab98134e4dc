"""All-reduce in 25 MB buckets, as PyTorch does.

This is PyTorch's DistributedDataParallel (Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel
Training", VLDB 2020): `bucket_cap_mb=25`, after a first bucket of 1 MB so that communication starts early. A bucket
closes once it has reached its size, so it may be over it by part of a gradient.
"""

from __future__ import annotations

from autosync.baselines.buckets import MEGABYTE, bucketed
from autosync.baselines.decisions import strategy_of, variables_in_ready_order
from autosync.spec import ClusterSpec, ModelSpec, Strategy

__all__ = ["all_reduce_25mb"]


def all_reduce_25mb(model: ModelSpec, cluster: ClusterSpec) -> Strategy:
    """Every variable all-reduced, in ready order: a bucket of 1 MB, then buckets of 25 MB, for each dtype."""
    return strategy_of(model, cluster, bucketed(variables_in_ready_order(model), _full))


def _full(index: int, held_bytes: list[int], next_bytes: int) -> bool:
    del next_bytes
    return sum(held_bytes) >= (25 if index else 1) * MEGABYTE
