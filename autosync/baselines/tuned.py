"""The all-reduce that an engineer tunes by hand: each of a small grid of bucket sizes and algorithms is timed."""

from collections.abc import Sequence

from autosync.baselines.decisions import strategy_of, variables_in_ready_order
from autosync.baselines.reduced import bucketed, buckets_of
from autosync.layout.all_reduce import laid_out
from autosync.layout.all_reduce.collective import on_gpus
from autosync.spec import GPU_ALGORITHMS, PLACED_ALGORITHMS, ClusterSpec, ModelSpec, Strategy
from autosync.words.quantities import megabytes

BUCKET_SHARES = (1, 4, 16)
"""A bucket holds at most the bytes of all dense variables over one of these. People halve megabytes; a share is as
coarse, and finds different buckets for a small model too."""


def tried_by_hand(cluster: ClusterSpec) -> tuple[str, ...]:
    """The algorithms that an engineer would try on `cluster`: NCCL too if every replica runs on a GPU."""
    return (*PLACED_ALGORITHMS, *(GPU_ALGORITHMS if on_gpus(cluster) else ()))


def all_reduce_grid(
    model: ModelSpec, cluster: ClusterSpec, algorithms: Sequence[str] = PLACED_ALGORITHMS
) -> dict[str, Strategy]:
    """Every variable all-reduced, in ready order: each bucket size by each of `algorithms` that differs here.

    The sizes are those of `BUCKET_SHARES`, and a bucket a variable. Horovod's autotuner, and people who time some
    values of `bucket_cap_mb`, search as much. By name, such as "4.19 MB by tree"; of several that make the same
    decisions there is the first.
    """
    variables = variables_in_ready_order(model)
    dense_bytes = sum(variable.bytes for variable in variables if not variable.sparse)
    differing = [name for name in algorithms if laid_out(name).differs(cluster)] or ["ring"]
    first: dict[str, tuple[str, Strategy]] = {}
    for most_bytes in (*(dense_bytes // share for share in BUCKET_SHARES), 0):
        size = megabytes(most_bytes) if most_bytes else "each variable"
        for algorithm in differing:
            reduced = bucketed(variables, buckets_of(most_bytes), algorithm=algorithm)
            strategy = strategy_of(model, cluster, reduced)
            first.setdefault(strategy.digest, (f"{size} by {algorithm}", strategy))
    return dict(first.values())
