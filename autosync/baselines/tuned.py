"""All-reduce tuned by hand: the small grid of bucket sizes and algorithms that an engineer would time."""

from collections.abc import Sequence
from dataclasses import replace

from autosync.baselines.decisions import strategy_of, variables_in_ready_order
from autosync.baselines.reduced import assign_buckets, buckets_of
from autosync.layout.all_reduce import layout_of
from autosync.layout.all_reduce.collective import on_gpus
from autosync.spec import GPU_ALGORITHMS, PLACED_ALGORITHMS, ClusterSpec, ModelSpec, Strategy
from autosync.words.quantities import megabytes

BUCKET_SHARES = (1, 4, 16)
"""A bucket holds at most the bytes of all dense variables divided by one of these. People try powers of two in
megabytes; shares are as coarse, and give different buckets for small models, too."""


def algorithms_to_try(cluster: ClusterSpec) -> tuple[str, ...]:
    """The algorithms that an engineer would try on `cluster`, including NCCL if every replica runs on a GPU."""
    return (*PLACED_ALGORITHMS, *(GPU_ALGORITHMS if on_gpus(cluster) else ()))


def all_reduce_grid(
    model: ModelSpec,
    cluster: ClusterSpec,
    algorithms: Sequence[str] = PLACED_ALGORITHMS,
    overlaps: Sequence[bool] = (False,),
) -> dict[str, Strategy]:
    """Every variable all-reduced, in ready order, for each bucket size and each of `algorithms` that differs here.

    The sizes are those of `BUCKET_SHARES`, and one bucket per variable. Horovod's autotuner, and people who time some
    values of `bucket_cap_mb`, search as many. `overlaps`: whether steps overlap with the next forward pass, to be tried
    with each combination. Names are such as "4.19 MB by tree" or "4.19 MB by tree, overlapped"; of several strategies
    with the same decisions, only the first is kept.
    """
    variables = variables_in_ready_order(model)
    dense_bytes = sum(variable.bytes for variable in variables if not variable.sparse)
    differing = [name for name in algorithms if layout_of(name).differs(cluster)] or ["ring"]
    first: dict[str, tuple[str, Strategy]] = {}
    for most_bytes in (*(dense_bytes // share for share in BUCKET_SHARES), 0):
        size = megabytes(most_bytes) if most_bytes else "each variable"
        for algorithm in differing:
            reduced = assign_buckets(variables, buckets_of(most_bytes), algorithm=algorithm)
            strategy = strategy_of(model, cluster, reduced)
            for overlap in overlaps:
                tried = replace(strategy, overlap_next_forward=overlap)
                name = f"{size} by {algorithm}{', overlapped' if overlap else ''}"
                first.setdefault(tried.digest, (name, tried))
    return dict(first.values())
