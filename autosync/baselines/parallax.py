"""Parallax: sparse variables on parameter servers, dense ones all-reduced.

Source: Kim et al., "Parallax: Sparsity-aware Data Parallel Training of Deep Neural Networks", EuroSys 2019, as
AutoDist's `Parallax` builder has it: sparse variables stay whole and go over the servers by bytes. Dense gradients go
in Horovod's 64 MB buckets, which the paper builds on; AutoDist groups 128 variables instead.
"""

from __future__ import annotations

from autosync.baselines.all_reduce_64mb import over_fusion_threshold
from autosync.baselines.balance import balanced_by_bytes
from autosync.baselines.buckets import bucketed
from autosync.baselines.decisions import strategy_of, variables_in_ready_order
from autosync.spec import ClusterSpec, ModelSpec, Strategy

__all__ = ["parallax"]


def parallax(model: ModelSpec, cluster: ClusterSpec) -> Strategy:
    """Sparse variables on the servers with the least bytes; dense ones all-reduced in buckets of at most 64 MB."""
    sparse = [variable for variable in model.variables if variable.sparse]
    dense = [variable for variable in variables_in_ready_order(model) if not variable.sparse]
    shards = balanced_by_bytes(sparse, cluster, {}) | bucketed(dense, over_fusion_threshold)
    return strategy_of(model, cluster, shards)
