"""A strategy's shards as columns: what each weighs, how it is synchronized, and with what."""

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autosync.layout.coding import coded_bytes
from autosync.layout.shards import Shard
from autosync.layout.together import BUCKET, Layout
from autosync.spec import ALGORITHMS, ParameterServer
from autosync.spec.algorithms import SEEN_AS

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


def shard_columns(layout: Layout, servers: Mapping[str, int]) -> ShardColumns:
    """The columns of a strategy laid out, in the order of the model, whose server devices have numbers in `servers`."""
    numbers: dict[Hashable, int] = {}
    rows = []
    for shard, (way, key) in zip(layout.shards, layout.ways, strict=True):
        by, sizes = shard.synchronizer, (shard.slice.weighs.gradient_bytes, _log_coded_ratio(shard))
        server, stale = (servers[by.device], by.staleness) if isinstance(by, ParameterServer) else (-1, 0)
        bucket = numbers.setdefault(key, len(numbers)) if way == BUCKET else -1
        rows.append((shard.slice.variable_index, _way(shard), *sizes, server, bucket, float(stale)))
    return ShardColumns(*map(np.array, zip(*rows, strict=True)))


def _way(shard: Shard) -> int:
    by = shard.synchronizer
    if isinstance(by, ParameterServer):
        return WITH_COPIES if by.local_copy else SERVER
    return GATHERED if shard.variable.sparse or by.gathers else ALGORITHM_WAYS[by.algorithm]


def _log_coded_ratio(shard: Shard) -> float:
    """Logarithm of encoded over plain bytes that a replica sends of a shard; buckets count as the sum of theirs."""
    return math.log(coded_bytes(shard) / shard.slice.bytes) if shard.synchronizer.compressor else 0.0
