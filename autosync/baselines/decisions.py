"""Builds the strategy of a baseline from its decisions per variable."""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from autosync.spec import (
    MOST_SHARDS,
    ClusterSpec,
    ModelSpec,
    Partition,
    Strategy,
    Synchronizer,
    Variable,
    VariableStrategy,
    canonical_strategy,
    shard_sizes,
    strategy_faults,
)

Baseline: TypeAlias = Callable[[ModelSpec, ClusterSpec], Strategy]
"""A deterministic function that builds the baseline's strategy for any model and cluster."""

Cuts: TypeAlias = Mapping[str, Partition]
"""Cuts of variables by name; variables without an entry stay whole."""


def variables_in_ready_order(model: ModelSpec) -> list[Variable]:
    """The model's variables in the order in which their gradients are ready."""
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
    """The canonical strategy on all replicas, from the shards' synchronizers and the cuts of variables, by name."""
    variables = tuple(
        VariableStrategy(variable.name, tuple(shards[variable.name]), (cuts or {}).get(variable.name))
        for variable in model.variables
    )
    return canonical_strategy(Strategy(tuple(map(str, cluster.replica_devices)), variables), cluster)


def different_strategies(
    baselines: Mapping[str, Baseline], model: ModelSpec, cluster: ClusterSpec
) -> dict[str, Strategy]:
    """The strategies of `baselines` that fit, in order; only the first of several that make the same decisions."""
    first: dict[str, tuple[str, Strategy]] = {}
    for name, baseline in baselines.items():
        strategy = baseline(model, cluster)
        if not any(strategy_faults(strategy, model, cluster)):
            first.setdefault(strategy.digest, (name, strategy))
    return dict(first.values())


MIN_SHARD_BYTES = 65_536
"""The least bytes of a shard: a smaller one takes longer to request than to send, which is 50 us at 10 Gbit/s."""


def equal_shards(variable: Variable, servers: int) -> int:
    """The number of equal shards along axis 0: one per server, but each at least `MIN_SHARD_BYTES` and one row.

    1 leaves the variable whole.
    """
    rows = variable.shape[0] if variable.shape else 1
    return max(1, min(servers, rows, variable.bytes // MIN_SHARD_BYTES))


def cuts_by_servers(variables: Iterable[Variable], cluster: ClusterSpec) -> Cuts:
    """Cuts into `equal_shards` along axis 0 for each variable that gives more than one shard."""
    counts = {variable.name: equal_shards(variable, len(cluster.server_devices)) for variable in variables}
    return {name: Partition(0, count) for name, count in counts.items() if count > 1}


def cuts_into_parts(variables: Iterable[Variable], part_bytes: int) -> Cuts:
    """Cuts into parts of about `part_bytes`, in whole rows of axis 0, or of the longest axis if axis 0 is too short."""
    cuts = {}
    for variable in variables:
        parts, axis = -(-variable.bytes // part_bytes), 0
        if not variable.sparse and variable.shape and variable.shape[0] < parts:
            axis = variable.shape.index(max(variable.shape))
        shards = min(parts, variable.shape[axis] if variable.shape else 1, MOST_SHARDS)
        if shards > 1:
            cuts[variable.name] = Partition(axis, shards)
    return cuts
