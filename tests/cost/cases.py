"""One-variable models, strategies with one synchronizer, figures of links by name, and an unusual machine."""

from __future__ import annotations

from autosync.cost import Traffic
from autosync.cost.coefficients import ReplayCoefficients
from autosync.spec import (
    ClusterSpec,
    ModelSpec,
    Operator,
    Partition,
    Strategy,
    Synchronizer,
    Variable,
    VariableStrategy,
)

__all__ = ["SLOW_MESSAGES", "all_by", "dense_model", "link_bytes", "link_messages", "sparse_model", "strategy_of"]

SLOW_MESSAGES = ReplayCoefficients(0.02, 1.5e-10, 2e-13, 3e-3, 4e-9, 1e-9, overlap=0.1)
"""Coefficients of an unusual machine: a message takes 3 ms of its cores."""


def dense_model(elements: int = 1_000_000, slots: int = 0, flops: float = 0.0) -> ModelSpec:
    """One float32 vector `w`."""
    operators = (Operator("op", "dense", flops, (), ("w",)),)
    return ModelSpec("dense", 8, "optimizer", slots, (Variable("w", (elements,), "float32", 0),), operators)


def sparse_model(rows: int = 1000, width: int = 10, touched: float = 50.0, slots: int = 0) -> ModelSpec:
    """One float32 embedding `w`."""
    variable = Variable("w", (rows, width), "float32", 0, sparse=True, rows_per_step=touched)
    return ModelSpec("sparse", 8, "optimizer", slots, (variable,))


def all_by(model: ModelSpec, cluster: ClusterSpec, synchronizer: Synchronizer) -> Strategy:
    """Every variable whole, all with one synchronizer."""
    decisions = tuple(VariableStrategy(variable.name, (synchronizer,)) for variable in model.variables)
    return Strategy(tuple(map(str, cluster.replica_devices)), decisions)


def strategy_of(cluster: ClusterSpec, *shards: Synchronizer) -> Strategy:
    """The variable `w` cut along axis 0 into the given shards."""
    cut = Partition(0, len(shards)) if len(shards) > 1 else None
    return Strategy(tuple(map(str, cluster.replica_devices)), (VariableStrategy("w", shards, cut),))


def link_bytes(traffic: Traffic, cluster: ClusterSpec) -> dict[str, float]:
    return _by_link(traffic.bytes.tolist(), cluster)


def link_messages(traffic: Traffic, cluster: ClusterSpec) -> dict[str, float]:
    return _by_link(traffic.messages.tolist(), cluster)


def _by_link(figures: list[float], cluster: ClusterSpec) -> dict[str, float]:
    """The nonzero figures, by `source>target`."""
    named = {f"{link.source}>{link.target}": figure for link, figure in zip(cluster.links, figures, strict=True)}
    return {name: round(figure, 6) for name, figure in named.items() if figure}
