"""A strategy's shards as columns: what each weighs, how it is synchronized, and with what."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autosync.layout.weights import VariableTable
from autosync.spec import (
    ALGORITHMS,
    AllReduce,
    Cast,
    Compressor,
    ModelSpec,
    PowerSGD,
    Strategy,
    SufficientFactors,
    Synchronizer,
    TopK,
)
from autosync.spec.algorithms import SEEN_AS

__all__ = ["WAYS", "ShardColumns", "shard_columns"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]

WAYS = ("server", "server_with_copies", *(each for each in ALGORITHMS if each not in SEEN_AS), "gathered")
"""Ways in which a shard may be synchronized; gathered: replicas send their own parts to all others."""

SERVER, WITH_COPIES, GATHERED = 0, 1, len(WAYS) - 1
ALGORITHM_WAYS = {name: WAYS.index(SEEN_AS.get(name, name)) for name in ALGORITHMS}


@dataclass(frozen=True, eq=False)
class ShardColumns:
    """One entry a shard, all of shape (shards,).

    `variable` is the place of its variable in the model, `way` one of `WAYS`; `gradient_bytes` are a replica's before
    they are encoded, and `log_coded_ratio` the logarithm of the encoded ones over them. `server` and `bucket` are
    numbers from 0 up, or -1; buckets are numbered as they come in the model's order.
    """

    variable: IntArray
    way: IntArray
    gradient_bytes: FloatArray
    log_coded_ratio: FloatArray
    server: IntArray
    bucket: IntArray
    staleness: FloatArray

    @property
    def buckets(self) -> int:
        return int(self.bucket.max(initial=-1)) + 1


def shard_columns(
    model: ModelSpec, tables: Mapping[str, VariableTable], servers: Mapping[str, int], strategy: Strategy
) -> ShardColumns:
    """The columns of a strategy that fits the model and the cluster, whose server devices have numbers in `servers`."""
    decided, groups = strategy.by_name, dict[int, int]()
    rows: list[tuple[int, int, float, float, int, int, int]] = []
    for place, variable in enumerate(model.variables):
        each, table = decided[variable.name], tables[variable.name]
        for index, (shard, quantities) in enumerate(zip(each.shards, table.shards(each.partition), strict=True)):
            ratio = 0.0
            if shard.compressor is not None:
                shape = table.shapes(each.partition)[index]
                ratio = _log_coded_ratio(shard.compressor, shape, table.item_bytes, variable.factor_rows)
            if isinstance(shard, AllReduce):
                # A sparse variable is gathered by itself, whatever its group.
                bucket = -1 if variable.sparse else groups.setdefault(shard.group, len(groups))
                rows.append((place, _way(shard, variable.sparse), quantities.gradient_bytes, ratio, -1, bucket, 0))
            else:
                way, server = WITH_COPIES if shard.local_copy else SERVER, servers[shard.device]
                rows.append((place, way, quantities.gradient_bytes, ratio, server, -1, shard.staleness))
    place_, way_, size, coded, server_, bucket_, stale = zip(*rows, strict=True)
    return ShardColumns(
        np.array(place_, dtype=np.intp),
        np.array(way_, dtype=np.intp),
        np.array(size, dtype=np.float64),
        np.array(coded, dtype=np.float64),
        np.array(server_, dtype=np.intp),
        np.array(bucket_, dtype=np.intp),
        np.array(stale, dtype=np.float64),
    )


def _way(shard: Synchronizer, sparse: bool) -> int:
    assert isinstance(shard, AllReduce)
    return GATHERED if sparse or shard.gathers else ALGORITHM_WAYS[shard.algorithm]


def _log_coded_ratio(compressor: Compressor, shape: tuple[int, ...], item_bytes: int, factor_rows: int | None) -> float:
    """Logarithm of encoded over plain bytes that a replica sends of a shard; buckets count as the sum of theirs."""
    elements = max(1, math.prod(shape))
    if isinstance(compressor, Cast):
        return math.log(2 / item_bytes)
    if isinstance(compressor, TopK):
        return math.log(compressor.kept(elements) * (item_bytes + 4) / (elements * item_bytes))
    if isinstance(compressor, PowerSGD):
        matrix = compressor.matrix(shape)
        return math.log(compressor.rank * sum(matrix) / math.prod(matrix)) if matrix else 0.0
    assert isinstance(compressor, SufficientFactors)
    return math.log((factor_rows or 1) * sum(shape) / elements)
