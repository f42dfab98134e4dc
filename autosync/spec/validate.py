"""Why a strategy cannot hold for a model and a cluster, one sentence a fault."""

from collections.abc import Iterator

from autosync.errors import SpecError
from autosync.spec.cluster import ClusterSpec
from autosync.spec.compressor import Cast, SufficientFactors, TopK
from autosync.spec.discipline import PLAIN
from autosync.spec.model import DTYPE_BYTES, ModelSpec, Variable
from autosync.spec.quoting import listed, quoted
from autosync.spec.strategy import Strategy, VariableStrategy
from autosync.spec.synchronizer import AllReduce, ParameterServer, Synchronizer


def check_strategy(strategy: Strategy, model: ModelSpec, cluster: ClusterSpec) -> None:
    """Raise `SpecError` with the first fault, and how many more there are."""
    faults = list(strategy_faults(strategy, model, cluster))
    if faults:
        more = f" (and {len(faults) - 1} more faults)" if len(faults) > 1 else ""
        raise SpecError(faults[0] + more)


def check_step_time_ranks(strategy: Strategy) -> None:
    """Raise `SpecError` for a strategy that its step time says nothing about; see `step_time_fault`."""
    if (fault := step_time_fault(strategy)) is not None:
        raise SpecError(fault)


def step_time_fault(strategy: Strategy) -> str | None:
    """Why a step time does not tell what `strategy` is worth: its steps are not all alike. None where it does."""
    if strategy.discipline == PLAIN:
        return None
    return (
        "A step time says nothing about a strategy with a discipline, whose steps differ or change what training "
        "reaches; train with it (autosync train --strategy, or autosync trial --target), or leave the discipline out."
    )


def strategy_faults(strategy: Strategy, model: ModelSpec, cluster: ClusterSpec) -> Iterator[str]:
    """Every reason why `strategy` does not fit `model` on `cluster`; none when it does."""
    replicas = {str(device) for device in cluster.replica_devices}
    known = listed(sorted(replicas))
    for name in strategy.replicas:
        if name not in replicas:
            yield f"Replica {quoted(name)} is not in the cluster. Replicas can run on: {known}."
    for variable in model.variables:
        if variable.name not in strategy.by_name:
            yield (
                f"{_called(variable.name)} has no synchronizer; it would train differently on every replica. Add it."
            )
    servers = {str(device) for device in cluster.server_devices}
    listed_servers = listed(sorted(servers))
    for each in strategy.variables:
        if each.variable not in model.by_name:
            yield f"Model {quoted(model.name)} has no variable {quoted(each.variable)}; remove it from the strategy."
            continue
        yield from _partition_faults(each, model.by_name[each.variable])
        yield from _server_faults(each, servers, listed_servers)
        for shard in each.shards:
            yield from _exchange_faults(shard, each, model.by_name[each.variable])
    yield from _bucket_faults(strategy, model)
    yield from _staleness_faults(strategy)
    yield from _rhythm_faults(strategy)
    yield from _cut_off_faults(strategy)
    yield from _fidelity_faults(strategy)
    yield from _load_faults(strategy)
    yield from _collective_faults(strategy, cluster)


def _called(variable: str) -> str:
    return f"Variable {quoted(variable)}"


def _partition_faults(each: VariableStrategy, variable: Variable) -> Iterator[str]:
    cut = each.partition
    if cut is None:
        return
    if cut.axis >= len(variable.shape):
        shape = quoted(list(variable.shape))
        yield f"{_called(variable.name)} has shape {shape}, so it cannot be cut along axis {cut.axis}."
    elif cut.shards > variable.shape[cut.axis]:
        yield (
            f"{_called(variable.name)} has {variable.shape[cut.axis]} rows on axis {cut.axis}, "
            f"too few for {cut.shards} shards."
        )
    elif variable.sparse and cut.axis != 0:
        yield f"{_called(variable.name)} has a sparse gradient, so it can only be cut along axis 0, not {cut.axis}."


def _server_faults(each: VariableStrategy, servers: set[str], known: str) -> Iterator[str]:
    for shard in each.shards:
        if not isinstance(shard, ParameterServer):
            continue
        if shard.device not in servers:
            yield (
                f"{_called(each.variable)} is put on {quoted(shard.device)}, which cannot hold parameters. "
                f"Servers: {known}."
            )


def _exchange_faults(shard: Synchronizer, each: VariableStrategy, variable: Variable) -> Iterator[str]:
    """Compressors and algorithms that cannot hold for this variable."""
    name, compressor = variable.name, shard.compressor
    if isinstance(shard, AllReduce) and shard.algorithm != "ring" and (variable.sparse or shard.gathers):
        yield (
            f"{_called(name)} is gathered from all replicas, not summed on the way, so algorithm "
            f"{quoted(shard.algorithm)} says nothing; leave it 'ring'."
        )
    if isinstance(shard, AllReduce) and shard.is_collective and shard.is_scaled:
        yield (
            f"{_called(name)} is sent in fp16 by a collective, whose sums have no place for fp16's scales; "
            f"use bf16 or another algorithm."
        )
    if compressor is None:
        return
    if variable.sparse and not isinstance(compressor, Cast):
        yield f"{_called(name)} has a sparse gradient, which can be cast to 16 bits or left, not {_words(shard)}."
    if DTYPE_BYTES[variable.dtype] < 4:
        yield f"{_called(name)} is {variable.dtype}; only gradients of 32 or 64 bits are compressed. Leave it out."
    if isinstance(compressor, TopK) and compressor.indices != "own" and isinstance(shard, ParameterServer):
        yield f"{_called(name)} is on a server, where top-k's indices are each replica's 'own', not shared."
    if isinstance(compressor, SufficientFactors):
        if variable.factor_rows is None:
            yield f"{_called(name)} has no sufficient factors: its gradient is not one product of two matrices."
        elif each.partition is not None:
            yield f"{_called(name)} is cut, but sufficient factors stand for a whole matrix; leave it whole."


def _words(shard: Synchronizer) -> str:
    document = shard.compressor.to_json() if shard.compressor else {}
    return " ".join(map(str, document.values()))


def _staleness_faults(strategy: Strategy) -> Iterator[str]:
    """Faults of staleness: whatever waits for all replicas in every step makes the rest wait as well."""
    wanted = strategy.staleness
    if not wanted:
        return
    for each, _, shard in strategy.shards():
        if isinstance(shard, AllReduce):
            yield (
                f"Staleness {wanted} needs every shard on a parameter server, but variable {quoted(each.variable)} is "
                f"all-reduced, which waits for all replicas in every step."
            )
        elif shard.staleness != wanted:
            yield (
                f"All shards must have one staleness, but variable {quoted(each.variable)} has {shard.staleness} and "
                f"others {wanted}: a step waits for its most synchronous shard."
            )
        elif shard.local_copy:
            yield (
                f"{_called(each.variable)} has local copies, which a node's replicas share within a step; with "
                f"staleness {wanted} each replica pulls for itself."
            )
        elif shard.compressor is not None:
            yield f"{_called(each.variable)} is compressed; with staleness {wanted} gradients travel as they are."


def _rhythm_faults(strategy: Strategy) -> Iterator[str]:
    """Faults of steps in which replicas do not meet: each needs values of its own, and all there is of its gradient."""
    rhythm, replicas = strategy.discipline.rhythm, len(strategy.replicas)
    if rhythm is None:
        return
    if rhythm.elastic and rhythm.elastic.pull * replicas > 1:
        yield (
            f"An elastic meeting's pull times the number of replicas is at most 1, or the centre overshoots, not "
            f"{rhythm.elastic.pull:g} times {replicas}."
        )
    for each, _, shard in strategy.shards():
        if isinstance(shard, ParameterServer):
            yield (
                f"A rhythm needs every shard all-reduced, since replicas that do not meet have values of their own, "
                f"but variable {quoted(each.variable)} is on a parameter server."
            )
        elif shard.compressor is not None:
            yield f"{_called(each.variable)} is compressed; with a rhythm values and gradients travel as they are."


def _cut_off_faults(strategy: Strategy) -> Iterator[str]:
    waits, replicas = strategy.discipline.waits, len(strategy.replicas)
    if waits is None:
        return
    if waits.first is not None and waits.first > replicas:
        yield f"A step waits for at most all {replicas} replicas, not for the first {waits.first}."
    if strategy.staleness:
        yield "With staleness a step is the mean of all replicas' gradients; take a cut-off or staleness, not both."


def _fidelity_faults(strategy: Strategy) -> Iterator[str]:
    if strategy.discipline.fidelity is None:
        return
    kept = [(each, shard) for each, _, shard in strategy.shards() if isinstance(shard.compressor, TopK)]
    if not kept:
        yield "A fidelity says what top-k keeps, but no variable is compressed by top-k; compress one, or leave it out."
    for each, shard in kept:
        if isinstance(shard, AllReduce) and shard.is_collective and not strategy.discipline.fidelity.transports:
            yield (
                f"{_called(each.variable)} is reduced by a collective, whose messages have one length; with a fidelity "
                "use another algorithm."
            )


def _load_faults(strategy: Strategy) -> Iterator[str]:
    loads, replicas = strategy.discipline.loads, len(strategy.replicas)
    if loads is not None and len(loads.parts) != replicas:
        yield f"Loads are one for each of {replicas} replicas, not {len(loads.parts)}."


def _collective_faults(strategy: Strategy, cluster: ClusterSpec) -> Iterator[str]:
    kinds = sorted({device.kind for device in cluster.replica_devices if str(device) in strategy.replicas})
    if len(kinds) < 2:
        return
    for each, _, shard in strategy.shards():
        if isinstance(shard, AllReduce) and shard.is_collective:
            yield (
                f"{_called(each.variable)} is reduced by a collective, whose replicas are devices of one kind, but "
                f"there are {' and '.join(kinds)}; use another algorithm."
            )


def _bucket_faults(strategy: Strategy, model: ModelSpec) -> Iterator[str]:
    kinds: dict[int, tuple[str, ...]] = {}
    for each, _, shard in strategy.shards():
        if not isinstance(shard, AllReduce) or each.variable not in model.by_name:
            continue
        kind = (model.by_name[each.variable].dtype, shard.algorithm, *([_words(shard)] if shard.compressor else []))
        if kinds.setdefault(shard.group, kind) != kind:
            yield (
                f"All-reduce group {shard.group} mixes {' '.join(kinds[shard.group])} with {' '.join(kind)} "
                f"(variable {quoted(each.variable)}); a bucket has one dtype, algorithm and compressor. "
                f"Give it its own."
            )
