"""The trials of a person: DDP tuned by hand, and an all-reduce tuned by hand on autosync's engine."""

import math
from collections.abc import Callable, Iterator, Mapping

from autosync.baselines import DDP_BASELINES, different_strategies
from autosync.baselines.ddp import ddp_choices, ddp_grid
from autosync.baselines.tuned import algorithms_to_try, all_reduce_grid
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, Strategy
from autosync.tune.refusals import can_overlap, refusals_of
from studies.proof.cells import FRAMEWORK

Time = Callable[[str, Strategy], RuntimeRecord]
"""Times a strategy under its label."""


def ddp_by_hand(model: ModelSpec, cluster: ClusterSpec) -> dict[str, Strategy]:
    """The ways of calling DDP, in the order in which a person would try them.

    First the arguments of the documentation, then a grid of `bucket_cap_mb`, then caps with gradients as views of
    buckets and with a smaller first bucket.
    """
    named = {
        **different_strategies(DDP_BASELINES, model, cluster),
        **ddp_grid(model, cluster),
        **{f"DDP, {choice.ddp.in_words}": choice for choice in ddp_choices(model, cluster) if choice.ddp is not None},
    }
    return _different(named)


def all_reduce_by_hand(model: ModelSpec, cluster: ClusterSpec, time: Time, trials: int) -> Iterator[RuntimeRecord]:
    """Time `trials` pairs of bucket size and algorithm, and yield their records.

    If the engine can overlap steps with the next forward pass, all pairs do at first; then the fastest of them are
    tried with a barrier.
    """
    overlaps = can_overlap(FRAMEWORK, model, cluster)
    grid = all_reduce_grid(model, cluster, algorithms_to_try(cluster), (overlaps,))
    left_out = refusals_of(FRAMEWORK, grid, model, cluster)
    carried_out = {name: strategy for name, strategy in grid.items() if name not in left_out}
    seconds: dict[str, float] = {}
    for name, strategy in list(carried_out.items())[:trials]:
        record = time(name, strategy)
        seconds[name] = math.inf if record.median_seconds is None else record.median_seconds
        yield record
    if overlaps:
        with_barrier = all_reduce_grid(model, cluster, algorithms_to_try(cluster))
        fastest = sorted(seconds, key=lambda name: seconds[name])[: trials - len(seconds)]
        for name in (name.removesuffix(", overlapped") for name in fastest):
            yield time(name, with_barrier[name])


def _different(named: Mapping[str, Strategy]) -> dict[str, Strategy]:
    """Return the strategies without repetitions, each under its first name."""
    first: dict[str, tuple[str, Strategy]] = {}
    for name, strategy in named.items():
        first.setdefault(strategy.digest, (name, strategy))
    return dict(first.values())
