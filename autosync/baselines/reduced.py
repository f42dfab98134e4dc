"""Strategies that all-reduce all variables, in buckets filled in the order in which gradients become ready."""

from collections.abc import Callable, Iterable
from itertools import count
from typing import TypeAlias

from autosync.baselines.decisions import Cuts, cuts_by_servers, shard_bytes, strategy_of, variables_in_ready_order
from autosync.spec import AllReduce, ClusterSpec, DDPSettings, ModelSpec, Strategy, Synchronizer, Variable
from autosync.spec.ddp import MEBIBYTE

Full: TypeAlias = Callable[[int, list[int], int], bool]
"""(index of the bucket within its dtype, bytes of its shards, bytes of the next shard) -> start a new bucket?"""


def assign_buckets(
    variables: Iterable[Variable], full: Full, cuts: Cuts | None = None, algorithm: str = "ring"
) -> dict[str, list[Synchronizer]]:
    """Assign every shard of `variables`, which are in ready order, to an all-reduce group.

    Each dtype fills separate buckets. A sparse variable has its own group, because any algorithm gathers its rows
    instead of adding them.
    """
    groups = count()
    opened: dict[str, list[tuple[int, list[int]]]] = {}
    reduced: dict[str, list[Synchronizer]] = {}
    for variable in variables:
        sizes = shard_bytes(variable, (cuts or {}).get(variable.name))
        if variable.sparse:
            group = next(groups)
            reduced[variable.name] = [AllReduce(group) for _ in sizes]
            continue
        buckets = opened.setdefault(variable.dtype, [])
        reduced[variable.name] = []
        for size in sizes:
            if not buckets or full(len(buckets) - 1, buckets[-1][1], size):
                buckets.append((next(groups), []))
            buckets[-1][1].append(size)
            reduced[variable.name].append(AllReduce(buckets[-1][0], algorithm))
    return reduced


def all_reduce_25mb(model: ModelSpec, cluster: ClusterSpec) -> Strategy:
    """Every variable all-reduced, in ready order: a bucket of 1 MB, then buckets of 25 MB, for each dtype.

    The bucket sizes are the defaults of PyTorch's DistributedDataParallel (`DDPSettings`). A bucket closes once it
    reaches its size, so its last gradient may exceed the size.
    """
    return strategy_of(model, cluster, assign_buckets(variables_in_ready_order(model), _full))


def _full(index: int, held_bytes: list[int], next_bytes: int) -> bool:
    del next_bytes
    return DDPSettings().is_full(index, sum(held_bytes))


FUSION_THRESHOLD_BYTES = 64 * MEBIBYTE


def all_reduce_64mb(model: ModelSpec, cluster: ClusterSpec) -> Strategy:
    """Every variable all-reduced, in ready order, in buckets of at most 64 MB for each dtype.

    The bucket size is that of Horovod's tensor fusion (Sergeev and Del Balso, "Horovod: fast and easy distributed deep
    learning in TensorFlow", arXiv:1802.05799), whose published threshold is 64 MB: only a bucket of a single large
    gradient exceeds it. Horovod also closes a bucket after its cycle time; a strategy cannot express time.
    """
    return strategy_of(
        model, cluster, assign_buckets(variables_in_ready_order(model), buckets_of(FUSION_THRESHOLD_BYTES))
    )


def buckets_of(most_bytes: int) -> Full:
    """Buckets of at most `most_bytes`, or of a single larger shard; with 0, each shard has its own bucket."""
    return lambda _index, held_bytes, next_bytes: sum(held_bytes) + next_bytes > most_bytes


def all_reduce_per_variable(model: ModelSpec, cluster: ClusterSpec) -> Strategy:
    """Every variable all-reduced in its own bucket.

    This is data-parallel training without tensor fusion (Horovod with a fusion threshold of 0). It has the most overlap
    with the backward pass, and the most messages.
    """
    return strategy_of(model, cluster, assign_buckets(variables_in_ready_order(model), buckets_of(0)))


CHUNK_SHARDS = 128


def partitioned_all_reduce(model: ModelSpec, cluster: ClusterSpec) -> Strategy:
    """Dense variables cut along axis 0 by servers, all-reduced in ready order in buckets of 128 shards of one dtype.

    This is AutoDist's `PartitionedAR` builder (`chunk_size=128` shards per group), with another count of shards: the
    original cuts axis 0 into its smallest divisor; see `partitioned_parameter_server`. Here big variables are cut into
    one shard per server. Sparse variables stay whole, because a gather of rows gains nothing from a cut.
    """
    cuts = cuts_by_servers([variable for variable in model.variables if not variable.sparse], cluster)
    return strategy_of(model, cluster, assign_buckets(variables_in_ready_order(model), _has_enough_shards, cuts), cuts)


def _has_enough_shards(index: int, held_bytes: list[int], next_bytes: int) -> bool:
    del index, next_bytes
    return len(held_bytes) >= CHUNK_SHARDS
