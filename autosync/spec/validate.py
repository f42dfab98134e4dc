"""Validates a strategy against a model and a cluster; every fault is a sentence."""

from collections.abc import Iterator

from autosync.errors import SpecError
from autosync.spec.cluster import ClusterSpec
from autosync.spec.compressor import Cast, SufficientFactors, TopK
from autosync.spec.discipline import PLAIN
from autosync.spec.model import DTYPE_BYTES, ModelSpec, Variable
from autosync.spec.quoting import quote, shorten_list
from autosync.spec.strategy import Strategy, VariableStrategy
from autosync.spec.synchronizer import AllReduce, ParameterServer, Synchronizer


def check_strategy(strategy: Strategy, model: ModelSpec, cluster: ClusterSpec) -> None:
    """Raise `SpecError` with the first fault and the number of further faults."""
    faults = list(strategy_faults(strategy, model, cluster))
    if faults:
        more = f" (and {len(faults) - 1} more faults)" if len(faults) > 1 else ""
        raise SpecError(faults[0] + more)


def check_step_time_ranks(strategy: Strategy) -> None:
    """Raise `SpecError` if step times cannot rank `strategy`; see `step_time_fault`."""
    if (fault := step_time_fault(strategy)) is not None:
        raise SpecError(fault)


def step_time_fault(strategy: Strategy) -> str | None:
    """The reason why step times cannot rank `strategy`: its steps are not all alike. None if they can."""
    if strategy.discipline == PLAIN:
        return None
    return (
        "Step times cannot rank a strategy with a discipline, whose steps differ or change the result of "
        "training; train with it (autosync train --strategy, or autosync trial --target), or leave the discipline out."
    )


def strategy_faults(strategy: Strategy, model: ModelSpec, cluster: ClusterSpec) -> Iterator[str]:
    """Every reason why `strategy` does not fit `model` on `cluster`; empty if the strategy fits."""
    missing = [variable.name for variable in model.variables if variable.name not in strategy.by_name]
    unknown = [choice.variable for choice in strategy.variables if choice.variable not in model.by_name]
    if missing and unknown:
        yield (
            f"A strategy belongs to one model, and this strategy is another model's: it decides variable "
            f"{quote(unknown[0])}, which model {quote(model.name)} lacks, and leaves out variable {quote(missing[0])}. "
            "Find a strategy for this model with autosync tune."
        )
        return
    replicas = {str(device) for device in cluster.replica_devices}
    known = shorten_list(sorted(replicas))
    for name in strategy.replicas:
        if name not in replicas:
            yield f"Replica {quote(name)} is not in the cluster. Replicas can run on: {known}."
    for name in missing:
        yield f"{_label(name)} has no synchronizer; it would train differently on every replica. Add it."
    servers = {str(device) for device in cluster.server_devices}
    listed_servers = shorten_list(sorted(servers))
    for choice in strategy.variables:
        if choice.variable not in model.by_name:
            yield f"Model {quote(model.name)} has no variable {quote(choice.variable)}; remove it from the strategy."
            continue
        yield from _partition_faults(choice, model.by_name[choice.variable])
        yield from _server_faults(choice, servers, listed_servers)
        yield from _rows_apart_faults(choice, strategy, model)
        for shard in choice.shards:
            yield from _exchange_faults(shard, choice, model.by_name[choice.variable])
    yield from _bucket_faults(strategy, model)
    yield from _staleness_faults(strategy)
    yield from _rhythm_faults(strategy)
    yield from _cut_off_faults(strategy)
    yield from _fidelity_faults(strategy)
    yield from _load_faults(strategy)
    yield from _collective_faults(strategy, cluster)
    yield from _ddp_faults(strategy, model)
    yield from _overlap_faults(strategy)


def _label(variable: str) -> str:
    return f"Variable {quote(variable)}"


def _partition_faults(choice: VariableStrategy, variable: Variable) -> Iterator[str]:
    cut = choice.partition
    if cut is None:
        return
    if cut.axis >= len(variable.shape):
        shape = quote(list(variable.shape))
        yield f"{_label(variable.name)} has shape {shape}, so it cannot be cut along axis {cut.axis}."
    elif cut.shards > variable.shape[cut.axis]:
        yield (
            f"{_label(variable.name)} has {variable.shape[cut.axis]} rows on axis {cut.axis}, "
            f"too few for {cut.shards} shards."
        )
    elif variable.sparse and cut.axis != 0:
        yield f"{_label(variable.name)} has a sparse gradient, so it can only be cut along axis 0, not {cut.axis}."


def _server_faults(choice: VariableStrategy, servers: set[str], known: str) -> Iterator[str]:
    for shard in choice.shards:
        if not isinstance(shard, ParameterServer):
            continue
        if shard.device not in servers:
            yield (
                f"{_label(choice.variable)} is put on {quote(shard.device)}, which cannot hold parameters. "
                f"Servers: {known}."
            )


def _exchange_faults(shard: Synchronizer, choice: VariableStrategy, variable: Variable) -> Iterator[str]:
    """Faults of compressors and algorithms that this variable cannot use."""
    name, compressor = variable.name, shard.compressor
    if isinstance(shard, AllReduce) and shard.algorithm != "ring" and (variable.sparse or shard.gathers):
        yield (
            f"{_label(name)} is gathered from all replicas, not summed on the way, so algorithm "
            f"{quote(shard.algorithm)} has no effect; leave it 'ring'."
        )
    if isinstance(shard, AllReduce) and shard.is_collective and shard.is_scaled:
        yield (
            f"{_label(name)} is sent in fp16 by a collective, whose sums cannot carry fp16's scales; "
            f"use bf16 or another algorithm."
        )
    if compressor is None:
        return
    if variable.sparse and not isinstance(compressor, Cast):
        yield f"{_label(name)} has a sparse gradient, which can be cast to 16 bits or left, not {_words(shard)}."
    if DTYPE_BYTES[variable.dtype] < 4:
        yield f"{_label(name)} is {variable.dtype}; only gradients of 32 or 64 bits are compressed. Leave it out."
    if isinstance(compressor, TopK) and compressor.indices != "own" and isinstance(shard, ParameterServer):
        yield f"{_label(name)} is on a server, where top-k's indices are each replica's 'own', not shared."
    if isinstance(compressor, SufficientFactors):
        if variable.factor_rows is None:
            yield f"{_label(name)} has no sufficient factors: its gradient is not one product of two matrices."
        elif choice.partition is not None:
            yield f"{_label(name)} is cut, but sufficient factors stand for a whole matrix; leave it whole."


def _rows_apart_faults(choice: VariableStrategy, strategy: Strategy, model: ModelSpec) -> Iterator[str]:
    """Faults of looked-up rows that are sent apart. Without a profile, only the engine knows the uses of a variable."""
    if not choice.rows_apart:
        return
    is_tied = choice.variable in model.weight_tied_tables if model.profile is not None else True
    for fault, has_fault in (
        ("its profile has no lookup of rows beside a read of the whole variable", not is_tied),
        ("DistributedDataParallel sends whole gradients", strategy.ddp is not None),
        ("a discipline decides between two steps", strategy.discipline != PLAIN),
        ("with staleness replicas do not wait for each other's rows", strategy.staleness > 0),
    ):
        if has_fault:
            yield (
                f"The looked-up rows of variable {quote(choice.variable)} cannot be sent apart, because {fault}; set "
                "rows_apart to false."
            )


def _words(shard: Synchronizer) -> str:
    document = shard.compressor.to_json() if shard.compressor else {}
    return " ".join(map(str, document.values()))


def _staleness_faults(strategy: Strategy) -> Iterator[str]:
    """Faults of staleness: a shard that waits for all replicas in every step makes all other shards wait, too."""
    wanted = strategy.staleness
    if not wanted:
        return
    for choice, _, shard in strategy.shards():
        if isinstance(shard, AllReduce):
            yield (
                f"Staleness {wanted} needs every shard on a parameter server, but variable {quote(choice.variable)} "
                f"is all-reduced, which waits for all replicas in every step."
            )
        elif shard.staleness != wanted:
            yield (
                f"All shards must have one staleness, but variable {quote(choice.variable)} has {shard.staleness} and "
                f"others {wanted}: a step waits for its most synchronous shard."
            )
        elif shard.local_copy:
            yield (
                f"{_label(choice.variable)} has local copies, which a node's replicas share within a step; with "
                f"staleness {wanted} each replica pulls for itself."
            )
        elif shard.compressor is not None:
            yield f"{_label(choice.variable)} is compressed; with staleness {wanted} gradients are sent uncompressed."


def _rhythm_faults(strategy: Strategy) -> Iterator[str]:
    """Faults of rhythms: a replica that does not meet the others needs local values and its whole gradient."""
    rhythm, replicas = strategy.discipline.rhythm, len(strategy.replicas)
    if rhythm is None:
        return
    if rhythm.elastic and rhythm.elastic.pull * replicas > 1:
        yield (
            f"An elastic meeting's pull times the number of replicas is at most 1, or the centre overshoots, not "
            f"{rhythm.elastic.pull:g} times {replicas}."
        )
    for choice, _, shard in strategy.shards():
        if isinstance(shard, ParameterServer):
            yield (
                f"A rhythm needs every shard all-reduced, since replicas that do not meet have values of their own, "
                f"but variable {quote(choice.variable)} is on a parameter server."
            )
        elif shard.compressor is not None:
            yield f"{_label(choice.variable)} is compressed; with a rhythm values and gradients are sent uncompressed."


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
    kept = [(choice, shard) for choice, _, shard in strategy.shards() if isinstance(shard.compressor, TopK)]
    if not kept:
        yield "A fidelity needs a variable that top-k compresses, but there is none; compress one, or leave it out."
    for choice, shard in kept:
        if isinstance(shard, AllReduce) and shard.is_collective and not strategy.discipline.fidelity.transports:
            yield (
                f"{_label(choice.variable)} is reduced by a collective, whose messages have one length; with a "
                "fidelity use another algorithm."
            )


def _load_faults(strategy: Strategy) -> Iterator[str]:
    loads, replicas = strategy.discipline.loads, len(strategy.replicas)
    if loads is not None and len(loads.parts) != replicas:
        yield f"Loads have a part for each of {replicas} replicas, not {len(loads.parts)} parts."


def _collective_faults(strategy: Strategy, cluster: ClusterSpec) -> Iterator[str]:
    kinds = sorted({device.kind for device in cluster.replica_devices if str(device) in strategy.replicas})
    if len(kinds) < 2:
        return
    for choice, _, shard in strategy.shards():
        if isinstance(shard, AllReduce) and shard.is_collective:
            yield (
                f"{_label(choice.variable)} is reduced by a collective, whose replicas are devices of one kind, but "
                f"there are {' and '.join(kinds)}; use another algorithm."
            )


def _ddp_faults(strategy: Strategy, model: ModelSpec) -> Iterator[str]:
    if strategy.ddp is None:
        return
    if strategy.discipline != PLAIN:
        yield "DistributedDataParallel's steps are all alike; leave the discipline or the field 'ddp' out."
    dtypes = sorted({variable.dtype for variable in model.variables})
    if strategy.ddp.zero_redundancy_optimizer and len(dtypes) > 1:
        yield (
            f"ZeroRedundancyOptimizer takes parameters of one dtype, but the model has {' and '.join(dtypes)}; leave "
            "zero_redundancy_optimizer out."
        )
    for choice, _, shard in strategy.shards():
        variable = model.by_name.get(choice.variable)
        if variable is None:
            continue
        algorithm = "ring" if variable.sparse else "collective"
        cast = None if variable.sparse or shard.compressor != Cast("bf16") else shard.compressor
        if shard != AllReduce(getattr(shard, "group", 0), algorithm, cast) or choice.partition is not None:
            form = "uncompressed" if variable.sparse else "uncompressed or in bf16"
            yield (
                f"{_label(choice.variable)} must be whole and all-reduced by {algorithm!r}, {form}, because "
                "DistributedDataParallel carries the strategy out; decide it so, or leave the field 'ddp' out."
            )


def _overlap_faults(strategy: Strategy) -> Iterator[str]:
    if not strategy.overlap_next_forward:
        return
    for fault, has_fault in (
        ("DistributedDataParallel ends each backward pass with a barrier", strategy.ddp is not None),
        ("a discipline decides between two steps", strategy.discipline != PLAIN),
        ("with staleness replicas do not wait for each other's values", strategy.staleness > 0),
    ):
        if has_fault:
            yield (
                f"Steps cannot overlap with the next forward pass, because {fault}; set overlap_next_forward to false."
            )


def _bucket_faults(strategy: Strategy, model: ModelSpec) -> Iterator[str]:
    kinds: dict[int, tuple[str, ...]] = {}
    for choice, _, shard in strategy.shards():
        if not isinstance(shard, AllReduce) or choice.variable not in model.by_name:
            continue
        kind = (model.by_name[choice.variable].dtype, shard.algorithm, *([_words(shard)] if shard.compressor else []))
        if kinds.setdefault(shard.group, kind) != kind:
            yield (
                f"All-reduce group {shard.group} mixes {' '.join(kinds[shard.group])} with {' '.join(kind)} "
                f"(variable {quote(choice.variable)}); a bucket has one dtype, algorithm and compressor. "
                f"Give it its own."
            )
