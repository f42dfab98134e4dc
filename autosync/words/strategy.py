"""A strategy in words."""

from collections import Counter, defaultdict
from collections.abc import Iterator

from autosync.layout.together import Layout
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
from autosync.words.quantities import counted, few_of, megabytes

GATHERED = ("Touched rows", "Sufficient factors")
"""Beginnings of lines about parts that all replicas send to all others, in no bucket."""

CHOSEN_BY = {"own": "each replica's own", "star": "each replica chooses in turn", "var": "the strongest replica's"}


def strategy_in_words(strategy: Strategy, model: ModelSpec) -> list[str]:
    """What the strategy does, a sentence for every kind of decision; first, whether training follows other numbers."""
    warning = statistics_in_words(strategy)
    lines = [warning] if warning else []
    return [*lines, *_reduced(strategy, model), *_served(strategy, model), *_cut(strategy, model)]


def statistics_in_words(strategy: Strategy) -> str | None:
    """The way in which the strategy changes the statistics of training; None when it does not."""
    if not strategy.changes_statistics:
        return None
    compressors = dict.fromkeys(each.compressor for _, _, each in strategy.shards())
    ways = [compressor_in_words(each) for each in compressors if each and each.lossy]
    if strategy.staleness:
        ways.append(f"replicas up to {strategy.staleness} step{'s' * (strategy.staleness > 1)} apart")
    if waits := strategy.discipline.waits:
        late = "stop" if waits.late == "stop" else "finish their passes"
        whom = f"the first {waits.first}" if waits.policy is None else f"as many as {waits.policy} says"
        ways.append(f"a step waits for {whom} of {len(strategy.replicas)} replicas, and the late {late}")
    if fidelity := strategy.discipline.fidelity:
        ways.append(_kept(fidelity))
    if loads := strategy.discipline.loads:
        shares = ", ".join(f"{each:.0%}" for each in loads.shares)
        follow = "" if loads.dead_band is None else " at first, then by their times"
        times = "" if loads.times == 1 else f"{loads.times:g} times "
        ways.append(f"replicas compute {shares} of {times}the examples{follow}")
    if rhythm := strategy.discipline.rhythm:
        ways.append(_meeting(rhythm))
    return (
        f"CHANGES THE STATISTICS of training ({'; '.join(ways)}): it is only as good as the loss it reaches, "
        f"so a shorter step says nothing by itself."
    )


def _kept(fidelity: Fidelity) -> str:
    ratios = ", ".join(f"{each:g}" for each in fidelity.ratios)
    if fidelity.time_weight is not None:
        return f"top-k keeps one of {ratios}, as time weighs {fidelity.time_weight:.0%} and the gradient the rest"
    if fidelity.keeps is not None:
        return f"top-k keeps the least of {ratios} that holds {fidelity.keeps:.0%} of the squared norm"
    if fidelity.changes is not None:
        return f"top-k keeps {fidelity.ratios[0]:g} while the gradient's norm changes, else {fidelity.ratios[-1]:g}"
    return f"top-k keeps {ratios}, each for {counted(fidelity.steps, 'step')}, then the last"


def _meeting(rhythm: Rhythm) -> str:
    how = " with block momentum" if rhythm.block else " elastically" if rhythm.elastic else ""
    if rhythm.steps is not None:
        when = f"every {counted(rhythm.steps, 'step')}"
    elif rhythm.quantile is not None:
        when = f"when a gradient's squared norm changes as in the most changing {1 - rhythm.quantile:.0%} of steps"
    else:
        when = f"when a gradient's squared norm changes by {rhythm.threshold} of itself"
    first = f", and in the first {counted(rhythm.after, 'step')}" if rhythm.after else ""
    return f"replicas average {rhythm.averages}{how} {when}{first}"


def marked(label: str, changes_statistics: bool, time: str = "real") -> str:
    """The label of a strategy in a table, which says if that changes the statistics of training, and if its figures
    are not of real passes.
    """
    marks = [*(["lossy"] if changes_statistics else []), *([] if time == "real" else [time])]
    return f"{label} ({', '.join(marks)})" if marks else label


def decision_in_words(each: VariableStrategy, variable: Variable) -> str:
    """One variable's decision, without naming servers or buckets."""
    ways = dict.fromkeys(_how(shard, variable.sparse) for shard in each.shards)
    cut = f"cut in {each.partition.shards} along axis {each.partition.axis}, " if each.partition else ""
    return cut + " or ".join(ways)


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


def _reduced(strategy: Strategy, model: ModelSpec) -> list[str]:
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
        lines.append(f"{way}{where}: {_listed(names[way])}.")
    return sorted(lines, key=lambda line: line.startswith(GATHERED))


def _way(shard: AllReduce, variable: Variable) -> str:
    """How an all-reduced shard gets from each replica to all others."""
    encoded = f", {compressor_in_words(shard.compressor)}" if shard.compressor else ""
    if variable.sparse:
        return f"Touched rows gathered by every replica{encoded}"
    if isinstance(shard.compressor, SufficientFactors):
        return "Sufficient factors gathered by every replica"
    if shard.gathers:
        return f"All-gather{encoded}"
    algorithm = algorithm_in_words(shard.algorithm)
    return f"{algorithm[0].upper()}{algorithm[1:]} all-reduce{encoded}"


def _served(strategy: Strategy, model: ModelSpec) -> list[str]:
    by_server: dict[tuple[str, str], dict[str, int]] = {}
    for variable, size, synchronizer in _shard_bytes(strategy, model):
        if isinstance(synchronizer, ParameterServer):
            held = by_server.setdefault((synchronizer.device, _service(synchronizer)), {})
            held[variable.name] = held.get(variable.name, 0) + size
    return [f"Parameter server {device}{how}: {_listed(held)}." for (device, how), held in sorted(by_server.items())]


def _service(server: ParameterServer) -> str:
    words = ["local copies"] if server.local_copy else []
    words += [compressor_in_words(server.compressor)] if server.compressor else []
    words += [f"staleness {server.staleness}"] if server.staleness else []
    return f" ({', '.join(words)})" if words else ""


def algorithm_in_words(algorithm: str) -> str:
    """An all-reduce's algorithm, such as 'binomial-tree'."""
    return ALGORITHM_ROWS[algorithm].in_words


def compressor_in_words(compressor: Compressor) -> str:
    """How gradients travel."""
    if isinstance(compressor, Cast):
        return f"gradients in {compressor.dtype}"
    if isinstance(compressor, TopK):
        return f"top {100 * compressor.ratio:.3g} % of the elements, {CHOSEN_BY[compressor.indices]}"
    if isinstance(compressor, PowerSGD):
        return f"PowerSGD of rank {compressor.rank}"
    return "sufficient factors"


def _cut(strategy: Strategy, model: ModelSpec) -> list[str]:
    cut = {
        f"{each.variable} ({each.partition.shards} on axis {each.partition.axis})": model.by_name[each.variable].bytes
        for each in strategy.variables
        if each.partition
    }
    return [f"Cut into shards: {_listed(cut)}."] if cut else []


def _listed(sizes: dict[str, int]) -> str:
    """The biggest by name, the others by number, and the bytes in all."""
    biggest = sorted(sizes, key=lambda name: -sizes[name])
    return f"{few_of(biggest)}; {megabytes(sum(sizes.values()))}"


ARCHITECTURES = ("all-reduce", "parameter servers", "mixed", "gathered rows")
NEARLY_ALL = 0.9
SOME = 0.1


def architecture_of(strategy: Strategy, model: ModelSpec) -> str:
    """One of `ARCHITECTURES`, by the bytes of gradients a step.

    *gathered rows*: at least `SOME` are sparse and gathered by all replicas; of the others, *all-reduce* and *parameter
    servers* hold `NEARLY_ALL`, and *mixed* is what is between.
    """
    shares = _shares(strategy, model)
    if shares["gathered rows"] >= SOME:
        return "gathered rows"
    return next((kind for kind in ("all-reduce", "parameter servers") if shares[kind] >= NEARLY_ALL), "mixed")


def summary_of(strategy: Strategy, model: ModelSpec) -> str:
    """Shares of the bytes by how they travel, with buckets, algorithms, servers, cuts and compressors counted."""
    shares, synchronizers = _shares(strategy, model), [each for _, _, each in strategy.shards()]
    reduced = [each for each in synchronizers if isinstance(each, AllReduce)]
    servers = [each for each in synchronizers if isinstance(each, ParameterServer)]
    details = {
        "all-reduce": f" ({'/'.join(sorted({each.algorithm for each in reduced}))}, "
        f"{counted(len({each.group for each in reduced}), 'bucket')})",
        "parameter servers": f" (on {counted(len({each.device for each in servers}), 'device')}"
        f"{', local copies' if any(each.local_copy for each in servers) else ''})",
    }
    parts = [f"{share:.0%} {kind}{details.get(kind, '')}" for kind, share in shares.most_common() if share > 0]
    cut = sum(each.partition is not None for each in strategy.variables)
    parts += [f"{cut} of {len(strategy.variables)} variables cut"] if cut else []
    parts += ["compressed"] if any(each.compressor for each in synchronizers) else []
    return ", ".join(parts)


def _shares(strategy: Strategy, model: ModelSpec) -> Counter[str]:
    held: Counter[str] = Counter()
    for each in Layout.of(strategy, model).shards:
        held[_kind(each.synchronizer, each.variable)] += each.gradient_bytes  # type: ignore[assignment]
    whole = sum(held.values())
    return Counter({kind: size / whole for kind, size in held.items()})


def _kind(synchronizer: Synchronizer, variable: Variable) -> str:
    if isinstance(synchronizer, ParameterServer):
        return "parameter servers"
    return "gathered rows" if variable.sparse else "all-reduce"
