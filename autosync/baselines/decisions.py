"""Decisions per variable made into a strategy, as every baseline ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from autosync.spec import (
    ClusterSpec,
    ModelSpec,
    Partition,
    Strategy,
    Synchronizer,
    Variable,
    VariableStrategy,
    canonical_strategy,
    shard_sizes,
)

__all__ = ["Baseline", "Cuts", "shard_bytes", "strategy_of", "variables_in_ready_order"]

Baseline: TypeAlias = Callable[[ModelSpec, ClusterSpec], Strategy]
"""A baseline: a strategy written by hand for any model and cluster. It is deterministic."""

Cuts: TypeAlias = Mapping[str, Partition]
"""How variables are cut, by name; those left out stay whole."""


def variables_in_ready_order(model: ModelSpec) -> list[Variable]:
    """The model's variables, the one whose gradient is ready first in front."""
    return sorted(model.variables, key=lambda variable: variable.ready_order)


def shard_bytes(variable: Variable, cut: Partition | None) -> list[int]:
    """Bytes of each shard of `variable` under `cut`."""
    if cut is None:
        return [variable.bytes]
    rows = variable.shape[cut.axis]
    return [variable.bytes // rows * size for size in shard_sizes(rows, cut.shards)]


def strategy_of(
    model: ModelSpec, cluster: ClusterSpec, shards: Mapping[str, list[Synchronizer]], cuts: Cuts | None = None
) -> Strategy:
    """The canonical strategy on all replicas: for each variable, by name, its cut and one synchronizer a shard."""
    variables = tuple(
        VariableStrategy(variable.name, tuple(shards[variable.name]), (cuts or {}).get(variable.name))
        for variable in model.variables
    )
    return canonical_strategy(Strategy(tuple(map(str, cluster.replica_devices)), variables), cluster)
