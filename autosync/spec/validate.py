"""Why a strategy cannot hold for a model and a cluster, one sentence a fault."""

from __future__ import annotations

from collections.abc import Iterator

from autosync.errors import SpecError
from autosync.spec.cluster import ClusterSpec
from autosync.spec.model import ModelSpec, Variable
from autosync.spec.strategy import AllReduce, ParameterServer, Strategy, VariableStrategy

__all__ = ["check_strategy", "strategy_faults"]


def check_strategy(strategy: Strategy, model: ModelSpec, cluster: ClusterSpec) -> None:
    """Raise `SpecError` with the first fault, and how many more there are."""
    faults = list(strategy_faults(strategy, model, cluster))
    if faults:
        more = f" (and {len(faults) - 1} more faults)" if len(faults) > 1 else ""
        raise SpecError(faults[0] + more)


def strategy_faults(strategy: Strategy, model: ModelSpec, cluster: ClusterSpec) -> Iterator[str]:
    """Every reason why `strategy` does not fit `model` on `cluster`; none when it does."""
    replicas = {str(device) for device in cluster.replica_devices}
    for name in strategy.replicas:
        if name not in replicas:
            yield f"Replica {name!r} is not in the cluster. Replicas can run on: {', '.join(sorted(replicas))}."
    for variable in model.variables:
        if variable.name not in strategy.by_name:
            yield (
                f"Variable {variable.name!r} has no synchronizer; it would train differently on every replica. Add it."
            )
    servers = {str(device) for device in cluster.server_devices}
    for each in strategy.variables:
        if each.variable not in model.by_name:
            yield f"Model {model.name!r} has no variable {each.variable!r}; remove it from the strategy."
            continue
        yield from _partition_faults(each, model.by_name[each.variable])
        yield from _server_faults(each, servers)
    yield from _bucket_faults(strategy, model)


def _partition_faults(each: VariableStrategy, variable: Variable) -> Iterator[str]:
    cut = each.partition
    if cut is None:
        return
    if cut.axis >= len(variable.shape):
        yield f"Variable {variable.name!r} has shape {list(variable.shape)}, so it cannot be cut along axis {cut.axis}."
    elif cut.shards > variable.shape[cut.axis]:
        yield (
            f"Variable {variable.name!r} has {variable.shape[cut.axis]} rows on axis {cut.axis}, "
            f"too few for {cut.shards} shards."
        )
    elif variable.sparse and cut.axis != 0:
        yield f"Variable {variable.name!r} has a sparse gradient, so it can only be cut along axis 0, not {cut.axis}."


def _server_faults(each: VariableStrategy, servers: set[str]) -> Iterator[str]:
    for shard in each.shards:
        if not isinstance(shard, ParameterServer):
            continue
        if shard.device not in servers:
            yield (
                f"Variable {each.variable!r} is put on {shard.device!r}, which cannot hold parameters. "
                f"Servers: {', '.join(sorted(servers))}."
            )
        if shard.staleness != 0:
            yield (
                f"Variable {each.variable!r} asks for staleness {shard.staleness}; "
                f"only synchronous training (staleness 0) is offered so far."
            )


def _bucket_faults(strategy: Strategy, model: ModelSpec) -> Iterator[str]:
    kinds: dict[int, tuple[str, str]] = {}
    for each, _, shard in strategy.shards():
        if not isinstance(shard, AllReduce) or each.variable not in model.by_name:
            continue
        kind = (model.by_name[each.variable].dtype, shard.algorithm)
        if kinds.setdefault(shard.group, kind) != kind:
            yield (
                f"All-reduce group {shard.group} mixes {' '.join(kinds[shard.group])} with {' '.join(kind)} "
                f"(variable {each.variable!r}); a bucket has one dtype and one algorithm. Give it a group of its own."
            )
