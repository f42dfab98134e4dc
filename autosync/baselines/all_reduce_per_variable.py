"""All-reduce without buckets: every gradient by itself, as soon as it is ready.

Data-parallel training does this before fusion is added (Horovod with a fusion threshold of 0): it has the most overlap
with the backward pass, and the most messages.
"""

from __future__ import annotations

from autosync.baselines.buckets import bucketed
from autosync.baselines.decisions import strategy_of, variables_in_ready_order
from autosync.spec import ClusterSpec, ModelSpec, Strategy

__all__ = ["all_reduce_per_variable"]


def all_reduce_per_variable(model: ModelSpec, cluster: ClusterSpec) -> Strategy:
    """Every variable all-reduced in a bucket of its own."""
    return strategy_of(model, cluster, bucketed(variables_in_ready_order(model), lambda *_: True))
