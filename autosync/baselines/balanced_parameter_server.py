"""Balanced parameter servers: whole variables over all servers, even in bytes.

AutoDist's `PSLoadBalancing` builder and its default; the same rule as TensorFlow's `GreedyLoadBalancingStrategy`.
"""

from __future__ import annotations

from autosync.baselines.balance import balanced_by_bytes
from autosync.baselines.decisions import strategy_of
from autosync.spec import ClusterSpec, ModelSpec, Strategy

__all__ = ["balanced_parameter_server"]


def balanced_parameter_server(model: ModelSpec, cluster: ClusterSpec) -> Strategy:
    """Each variable, in graph order, on the server that holds the least bytes so far."""
    return strategy_of(model, cluster, balanced_by_bytes(model.variables, cluster, {}))
