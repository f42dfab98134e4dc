"""Describes a strategy in words."""

from collections import Counter, defaultdict
from collections.abc import Iterator

from autosync.layout.fusion import Layout
from autosync.spec import (
    AllReduce,
    Cast,
    Compressor,
    Fidelity,
    ModelSpec,
    ParameterServer,
    PowerSGD,
    Rhythm,
    Strategy,
    SufficientFactors,
    Synchronizer,
    TopK,
    Variable,
    VariableStrategy,
)
from autosync.spec.algorithms import ALGORITHM_ROWS
from autosync.words.quantities import count_of, few_of, megabytes

GATHERED = ("Touched rows", "Sufficient factors")
"""Beginnings of lines about parts that all replicas gather, outside buckets."""

CHOSEN_BY = {"own": "each replica's own", "star": "each replica chooses in turn", "var": "the strongest replica's"}


def strategy_in_words(strategy: Strategy, model: ModelSpec) -> list[str]:
    """The strategy in sentences, one per kind of decision, after a warning if it changes the numbers of training."""
    warning = statistics_in_words(strategy)
    lines = [warning] if warning else []
    if strategy.ddp is not None:
        lines.append(f"PyTorch's DistributedDataParallel itself synchronizes, with {strategy.ddp.in_words}.")
    if strategy.overlap_next_forward:
        lines.append("Steps end without a barrier: gradients and new values also travel during the next forward pass.")
    for table in strategy.rows_apart:
        lines.append(
            f"The looked-up rows of {table} travel apart from the rest of its gradient, which is ready earlier."
        )
    return [*lines, *_reduction_lines(strategy, model), *_server_lines(strategy, model), *_cut(strategy, model)]


def statistics_in_words(strategy: Strategy) -> str | None:
    """How the strategy changes the statistics of training; None if it does not."""
    if not strategy.changes_statistics:
        return None
    compressors = dict.fromkeys(shard.compressor for _, _, shard in strategy.shards())
    ways = [compressor_in_words(compressor) for compressor in compressors if compressor and compressor.lossy]
    if strategy.staleness:
        ways.append(f"replicas up to {strategy.staleness} step{'s' * (strategy.staleness > 1)} apart")
    if waits := strategy.discipline.waits:
        late = "stop" if waits.late == "stop" else "finish their passes"
        whom = f"the first {waits.first}" if waits.policy is None else f"as many as {waits.policy} says"
        ways.append(f"a step waits for {whom} of {len(strategy.replicas)} replicas, and the late {late}")
    if fidelity := strategy.discipline.fidelity:
        ways.append(_kept(fidelity))
    if loads := strategy.discipline.loads:
        shares = ", ".join(f"{share:.0%}" for share in loads.shares)
        follow = "" if loads.dead_band is None else " at first, then by their times"
        times = "" if loads.times == 1 else f"{loads.times:g} times "
        ways.append(f"replicas compute {shares} of {times}the examples{follow}")
    if rhythm := strategy.discipline.rhythm:
        ways.append(_meeting(rhythm))
    return (
        f"CHANGES THE STATISTICS of training ({'; '.join(ways)}): it is only as good as the loss it reaches, "
        f"so a shorter step alone does not make it better."
    )


def _kept(fidelity: Fidelity) -> str:
    ratios = ", ".join(f"{ratio:g}" for ratio in fidelity.ratios)
    if fidelity.time_weight is not None:
        return f"top-k keeps one of {ratios}, as time weighs {fidelity.time_weight:.0%} and the gradient the rest"
    if fidelity.keeps is not None:
        return f"top-k keeps the least of {ratios} that holds {fidelity.keeps:.0%} of the squared norm"
    if fidelity.changes is not None:
        return f"top-k keeps {fidelity.ratios[0]:g} while the gradient's norm changes, else {fidelity.ratios[-1]:g}"
    return f"top-k keeps {ratios}, each for {count_of(fidelity.steps, 'step')}, then the last"


def _meeting(rhythm: Rhythm) -> str:
    how = " with block momentum" if rhythm.block else " elastically" if rhythm.elastic else ""
    if rhythm.steps is not None:
        when = f"every {count_of(rhythm.steps, 'step')}"
    elif rhythm.quantile is not None:
        when = f"when a gradient's squared norm changes as in the most changing {1 - rhythm.quantile:.0%} of steps"
    else:
        when = f"when a gradient's squared norm changes by {rhythm.threshold} of itself"
    first = f", and in the first {count_of(rhythm.after, 'step')}" if rhythm.after else ""
    return f"replicas average {rhythm.averages}{how} {when}{first}"


def marked(label: str, changes_statistics: bool, time: str = "real") -> str:
    """The label of a strategy in a table, with marks if it changes the statistics of training or if its figures are not
    of real passes.
    """
    marks = [*(["lossy"] if changes_statistics else []), *([] if time == "real" else [time])]
    return f"{label} ({', '.join(marks)})" if marks else label


def step_end_in_words(strategy: Strategy) -> str:
    """How a step of the strategy ends."""
    return "overlap with the next forward pass" if strategy.overlap_next_forward else "end with a barrier"


def decision_in_words(decision: VariableStrategy, variable: Variable) -> str:
    """A variable's decision, without the names of servers or buckets."""
    ways = dict.fromkeys(_how(shard, variable.sparse) for shard in decision.shards)
    cut = f"cut in {decision.partition.shards} along axis {decision.partition.axis}, " if decision.partition else ""
    return cut + " or ".join(ways) + (", looked-up rows apart" if decision.rows_apart else "")


def _how(shard: Synchronizer, sparse: bool) -> str:
    if isinstance(shard, ParameterServer):
        return f"on a parameter server{_service(shard)}"
    encoded = f", {compressor_in_words(shard.compressor)}" if shard.compressor else ""
    if sparse or shard.gathers:
        return f"{'rows' if sparse else 'parts'} gathered by every replica{encoded}"
    return f"{algorithm_in_words(shard.algorithm)} all-reduce{encoded}"


def _shard_bytes(strategy: Strategy, model: ModelSpec) -> Iterator[tuple[Variable, int, Synchronizer]]:
    for shard in Layout.of(strategy, model).shards:
        yield shard.variable, shard.slice.bytes, shard.synchronizer


def _reduction_lines(strategy: Strategy, model: ModelSpec) -> list[str]:
    buckets: dict[str, dict[int, int]] = {}
    names: dict[str, dict[str, int]] = {}
    for variable, size, synchronizer in _shard_bytes(strategy, model):
        if isinstance(synchronizer, AllReduce):
            way = _way(synchronizer, variable)
            group = buckets.setdefault(way, defaultdict(int))
            group[-1 if way.startswith(GATHERED) else synchronizer.group] += size
            held = names.setdefault(way, {})
            held[variable.name] = held.get(variable.name, 0) + size
    lines = []
    for way in sorted(buckets, key=lambda way: -sum(buckets[way].values())):
        sizes = sorted(buckets[way].values(), reverse=True)
        shown = ", ".join(megabytes(size) for size in sizes[:6]) + (", ..." if len(sizes) > 6 else "")
        plural = "s" if len(sizes) > 1 else ""
        where = "" if way.startswith(GATHERED) else f" in {len(sizes)} bucket{plural} ({shown})"
        lines.append(f"{way}{where}: {_size_list(names[way])}.")
    return sorted(lines, key=lambda line: line.startswith(GATHERED))


def _way(shard: AllReduce, variable: Variable) -> str:
    """How an all-reduced shard is exchanged among replicas."""
    encoded = f", {compressor_in_words(shard.compressor)}" if shard.compressor else ""
    if variable.sparse:
        return f"Touched rows gathered by every replica{encoded}"
    if isinstance(shard.compressor, SufficientFactors):
        return "Sufficient factors gathered by every replica"
    if shard.gathers:
        return f"All-gather{encoded}"
    algorithm = algorithm_in_words(shard.algorithm)
    return f"{algorithm[0].upper()}{algorithm[1:]} all-reduce{encoded}"


def _server_lines(strategy: Strategy, model: ModelSpec) -> list[str]:
    by_server: dict[tuple[str, str], dict[str, int]] = {}
    for variable, size, synchronizer in _shard_bytes(strategy, model):
        if isinstance(synchronizer, ParameterServer):
            held = by_server.setdefault((synchronizer.device, _service(synchronizer)), {})
            held[variable.name] = held.get(variable.name, 0) + size
    return [f"Parameter server {device}{how}: {_size_list(held)}." for (device, how), held in sorted(by_server.items())]


def _service(server: ParameterServer) -> str:
    words = ["local copies"] if server.local_copy else []
    words += [compressor_in_words(server.compressor)] if server.compressor else []
    words += [f"staleness {server.staleness}"] if server.staleness else []
    return f" ({', '.join(words)})" if words else ""


def algorithm_in_words(algorithm: str) -> str:
    """The name of an all-reduce algorithm in sentences, such as 'binomial-tree'."""
    return ALGORITHM_ROWS[algorithm].in_words


def compressor_in_words(compressor: Compressor) -> str:
    """How `compressor` encodes gradients."""
    if isinstance(compressor, Cast):
        return f"gradients in {compressor.dtype}"
    if isinstance(compressor, TopK):
        return f"top {100 * compressor.ratio:.3g} % of the elements, {CHOSEN_BY[compressor.indices]}"
    if isinstance(compressor, PowerSGD):
        return f"PowerSGD of rank {compressor.rank}"
    return "sufficient factors"


def _cut(strategy: Strategy, model: ModelSpec) -> list[str]:
    cut = {
        f"{name} ({decision.partition.shards} on axis {decision.partition.axis})": model.by_name[name].bytes
        for name, decision in strategy.by_name.items()
        if decision.partition
    }
    return [f"Cut into shards: {_size_list(cut)}."] if cut else []


def _size_list(sizes: dict[str, int]) -> str:
    """The names of the biggest entries, the number of further entries, and the bytes in total."""
    biggest = sorted(sizes, key=lambda name: -sizes[name])
    return f"{few_of(biggest)}; {megabytes(sum(sizes.values()))}"


ARCHITECTURES = ("all-reduce", "parameter servers", "mixed", "gathered rows")
NEARLY_ALL = 0.9
SOME = 0.1


def architecture_of(strategy: Strategy, model: ModelSpec) -> str:
    """One of `ARCHITECTURES`, by the share of gradient bytes per step.

    *gathered rows*: at least `SOME` of the bytes are sparse and gathered by all replicas. Otherwise *all-reduce* or
    *parameter servers* if that kind has at least `NEARLY_ALL` of the bytes, else *mixed*.
    """
    shares = _shares(strategy, model)
    if shares["gathered rows"] >= SOME:
        return "gathered rows"
    return next((kind for kind in ("all-reduce", "parameter servers") if shares[kind] >= NEARLY_ALL), "mixed")


def summary_of(strategy: Strategy, model: ModelSpec) -> str:
    """Shares of the bytes by kind of exchange, with counts of buckets, servers and cuts, and the algorithms used."""
    shares, synchronizers = _shares(strategy, model), [shard for _, _, shard in strategy.shards()]
    reduced = [shard for shard in synchronizers if isinstance(shard, AllReduce)]
    servers = [shard for shard in synchronizers if isinstance(shard, ParameterServer)]
    details = {
        "all-reduce": f" ({'/'.join(sorted({shard.algorithm for shard in reduced}))}, "
        f"{count_of(len({shard.group for shard in reduced}), 'bucket')})",
        "parameter servers": f" (on {count_of(len({shard.device for shard in servers}), 'device')}"
        f"{', local copies' if any(shard.local_copy for shard in servers) else ''})",
    }
    parts = [f"{share:.0%} {kind}{details.get(kind, '')}" for kind, share in shares.most_common() if share > 0]
    cut = sum(decision.partition is not None for decision in strategy.variables)
    parts += [f"{cut} of {len(strategy.variables)} variables cut"] if cut else []
    parts += ["compressed"] if any(shard.compressor for shard in synchronizers) else []
    return ", ".join(parts)


def _shares(strategy: Strategy, model: ModelSpec) -> Counter[str]:
    held: Counter[str] = Counter()
    for shard in Layout.of(strategy, model).shards:
        held[_kind(shard.synchronizer, shard.variable)] += shard.gradient_bytes  # type: ignore[assignment]
    whole = sum(held.values())
    return Counter({kind: size / whole for kind, size in held.items()})


def _kind(synchronizer: Synchronizer, variable: Variable) -> str:
    if isinstance(synchronizer, ParameterServer):
        return "parameter servers"
    return "gathered rows" if variable.sparse else "all-reduce"
