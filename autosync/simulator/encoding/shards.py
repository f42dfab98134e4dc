"""A strategy's shards as columns: their bytes, how they are synchronized, and their server or bucket."""

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import numpy as np

from autosync.layout.coding import bytes_when_encoded
from autosync.layout.fusion import BUCKET, Layout
from autosync.layout.shards import Shard
from autosync.numeric import FloatArray, IndexArray
from autosync.spec import ALGORITHMS, ParameterServer
from autosync.spec.algorithms import SEEN_AS

WAYS = (
    "server",
    "server_with_copies",
    *(algorithm for algorithm in ALGORITHMS if algorithm not in SEEN_AS),
    "gathered",
)
"""Ways to synchronize a shard; gathered: replicas send their own parts to all other replicas."""

SERVER, WITH_COPIES, GATHERED = 0, 1, len(WAYS) - 1
ALGORITHM_WAYS = {name: WAYS.index(SEEN_AS.get(name, name)) for name in ALGORITHMS}


@dataclass(frozen=True, eq=False)
class ShardColumns:
    """One entry per shard, all of shape (shards,)."""

    variable: IndexArray
    """The index of the shard's variable in the model."""
    way: IndexArray
    """The index of the way in `WAYS`."""
    gradient_bytes: FloatArray
    """A replica's bytes before encoding."""
    log_coded_ratio: FloatArray
    """Logarithm of the encoded bytes over `gradient_bytes`."""
    server: IndexArray
    """The server's number from 0, or -1."""
    bucket: IndexArray
    """The bucket's number from 0 in the order of the model, or -1."""
    staleness: FloatArray

    @property
    def buckets(self) -> int:
        return int(self.bucket.max(initial=-1)) + 1


def shard_columns(layout: Layout, servers: Mapping[str, int]) -> ShardColumns:
    """Return the columns of a laid-out strategy, in the order of the model. `servers` numbers the server devices."""
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
    """Return the logarithm of the encoded over the plain bytes of a replica's shard; a bucket's is the sum of its
    shards'.
    """
    return math.log(bytes_when_encoded(shard) / shard.slice.bytes) if shard.synchronizer.compressor else 0.0
