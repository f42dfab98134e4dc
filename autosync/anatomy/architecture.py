"""Strategies by their architecture, and in one line."""

from __future__ import annotations

from collections import Counter

from autosync.anatomy.quantities import counted
from autosync.layout.shards import holdings
from autosync.spec import AllReduce, ModelSpec, ParameterServer, Strategy, Synchronizer, Variable

__all__ = ["ARCHITECTURES", "architecture_of", "summary_of"]

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
    for each in holdings(strategy, model):
        held[_kind(each.synchronizer, each.variable)] += each.gradient_bytes  # type: ignore[assignment]
    whole = sum(held.values())
    return Counter({kind: size / whole for kind, size in held.items()})


def _kind(synchronizer: Synchronizer, variable: Variable) -> str:
    if isinstance(synchronizer, ParameterServer):
        return "parameter servers"
    return "gathered rows" if variable.sparse else "all-reduce"
