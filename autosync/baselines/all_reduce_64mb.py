"""All-reduce in 64 MB buckets, as Horovod does.

This is Horovod's tensor fusion (Sergeev and Del Balso, "Horovod: fast and easy distributed deep learning in
TensorFlow", arXiv:1802.05799) with its published fusion threshold of 64 MB: a bucket never goes over it, unless by a
single gradient that does so alone. Horovod also closes a bucket when its cycle time is up; time is no part of a
strategy.
"""

from __future__ import annotations

from autosync.baselines.buckets import MEGABYTE, bucketed
from autosync.baselines.decisions import strategy_of, variables_in_ready_order
from autosync.spec import ClusterSpec, ModelSpec, Strategy

__all__ = ["all_reduce_64mb", "over_fusion_threshold"]

FUSION_THRESHOLD_BYTES = 64 * MEGABYTE


def all_reduce_64mb(model: ModelSpec, cluster: ClusterSpec) -> Strategy:
    """Every variable all-reduced, in ready order, in buckets of at most 64 MB for each dtype."""
    return strategy_of(model, cluster, bucketed(variables_in_ready_order(model), over_fusion_threshold))


def over_fusion_threshold(index: int, held_bytes: list[int], next_bytes: int) -> bool:
    """Whether a bucket that holds these shards has no room for one more of `next_bytes`."""
    del index
    return sum(held_bytes) + next_bytes > FUSION_THRESHOLD_BYTES
