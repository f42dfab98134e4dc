"""Factors: what strategies differ in, as a few numbers that a person can name."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autosync.layout.shards import holdings
from autosync.spec import ALGORITHMS, AllReduce, ModelSpec, ParameterServer, Strategy
from autosync.words.strategy import algorithm_in_words

__all__ = ["Factor", "factors_of"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Factor:
    """`values`, float64 (strategies, columns): one column, or one for each algorithm. `about` says what they are."""

    name: str
    about: str
    values: Floats


def factors_of(strategies: Sequence[Strategy], model: ModelSpec) -> list[Factor]:
    """Every factor, in the order of `COLUMNS`; those in which no two strategies differ are left out."""
    rows = [_row(strategy, model) for strategy in strategies]
    table = {name: np.array([row.get(name, 0.0) for row in rows]) for name in (*COLUMNS, *ALGORITHM_COLUMNS)}
    factors = [Factor(name, about, table[name][:, None]) for name, about in COLUMNS.items()]
    algorithms = np.stack([table[name] for name in ALGORITHM_COLUMNS], axis=1)
    factors.append(Factor("all-reduce algorithm", "share of the bytes reduced by each but the ring", algorithms))
    return [each for each in factors if np.ptp(each.values, axis=0).max() > 0]


COLUMNS = {
    "all-reduced bytes": "share of the gradients' bytes that is all-reduced",
    "gathered rows": "share that is sparse and gathered by every replica",
    "number of buckets": "logarithm of the all-reduce buckets, plus one",
    "busiest server": "share of the bytes on the server that holds most",
    "cut variables": "share of the bytes in variables that are cut",
    "local copies": "share on servers with local copies",
    "compressed bytes": "share that is compressed",
}
ALGORITHM_COLUMNS = tuple(algorithm_in_words(name) for name in ALGORITHMS if name != "ring")


def _row(strategy: Strategy, model: ModelSpec) -> dict[str, float]:
    held, servers, buckets = Counter[str](), Counter[str](), set[int]()
    for each in holdings(strategy, model):
        size, shard = each.gradient_bytes / model.gradient_bytes, each.synchronizer
        kinds = ["cut variables"] * (each.count > 1) + ["compressed bytes"] * (shard.compressor is not None)
        if isinstance(shard, ParameterServer):
            servers[shard.device] += size  # type: ignore[assignment]
            kinds += ["local copies"] * shard.local_copy
        elif each.variable.sparse:
            kinds.append("gathered rows")
        else:
            kinds += ["all-reduced bytes", *_algorithm(shard)]
            buckets.add(shard.group)
        for kind in kinds:
            held[kind] += size  # type: ignore[assignment]
    counts = {"number of buckets": math.log1p(len(buckets)), "busiest server": max(servers.values(), default=0.0)}
    return {**held, **counts}


def _algorithm(shard: AllReduce) -> list[str]:
    return [] if shard.gathers or shard.algorithm == "ring" else [algorithm_in_words(shard.algorithm)]
