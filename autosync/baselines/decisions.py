"""Decisions per variable made into a strategy, as every baseline ends."""

from collections.abc import Callable, Iterable, Mapping
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
    strategy_faults,
)

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


def different_strategies(
    baselines: Mapping[str, Baseline], model: ModelSpec, cluster: ClusterSpec
) -> dict[str, Strategy]:
    """Those of `baselines` that fit, in their order; of some that make the same decisions, only the first."""
    first: dict[str, tuple[str, Strategy]] = {}
    for name, baseline in baselines.items():
        strategy = baseline(model, cluster)
        if not any(strategy_faults(strategy, model, cluster)):
            first.setdefault(strategy.digest, (name, strategy))
    return dict(first.values())


MIN_SHARD_BYTES = 65_536
"""Bytes of a shard that is worth cutting: a smaller one takes as long to ask for as to send, 50 us at 10 Gbit/s."""


def even_shards(variable: Variable, servers: int) -> int:
    """One shard a server along axis 0, but none under `MIN_SHARD_BYTES` or a row; 1 leaves the variable whole."""
    rows = variable.shape[0] if variable.shape else 1
    return max(1, min(servers, rows, variable.bytes // MIN_SHARD_BYTES))


def cuts_by_servers(variables: Iterable[Variable], cluster: ClusterSpec) -> Cuts:
    """`even_shards` along axis 0 for each variable that is worth cutting."""
    counts = {variable.name: even_shards(variable, len(cluster.server_devices)) for variable in variables}
    return {name: Partition(0, count) for name, count in counts.items() if count > 1}
