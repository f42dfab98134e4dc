"""Strategies that PyTorch's DistributedDataParallel itself carries out, on CPUs by gloo's all-reduce."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from types import MappingProxyType

from autosync.baselines.decisions import Baseline, strategy_of, variables_in_ready_order
from autosync.baselines.reduced import assign_buckets
from autosync.spec import DTYPE_BYTES, Cast, ClusterSpec, DDPSettings, ModelSpec, Strategy
from autosync.spec.ddp import DEFAULT_CAPS_MB, MEBIBYTE

HALVINGS = 6
"""Caps on buckets are the bytes of the model, halved up to this often."""

ONE_BYTE = 1 / MEBIBYTE
"""A cap with which every bucket is full with its first gradient."""


def under_ddp(model: ModelSpec, cluster: ClusterSpec, settings: DDPSettings) -> Strategy:
    """The strategy that DistributedDataParallel carries out with `settings`: its buckets, in ready order.

    Sparse gradients are gathered, each in a bucket of its own.
    """
    reduced = assign_buckets(
        variables_in_ready_order(model),
        lambda index, held_bytes, _: settings.is_full(index, sum(held_bytes)),
        algorithm="collective",
    )
    return replace(strategy_of(model, cluster, reduced), ddp=settings)


def ddp(model: ModelSpec, cluster: ClusterSpec) -> Strategy:
    """DistributedDataParallel as most people call it, without arguments."""
    return under_ddp(model, cluster, DDPSettings())


def ddp_one_size(model: ModelSpec, cluster: ClusterSpec) -> Strategy:
    """`bucket_cap_mb=25`: unlike DDP's default, the first bucket has the size of the others."""
    return under_ddp(model, cluster, DDPSettings(DEFAULT_CAPS_MB[1:]))


def ddp_one_bucket(model: ModelSpec, cluster: ClusterSpec) -> Strategy:
    """A single bucket of all dense gradients, after the backward pass; `ddp_one_size` if 25 MiB hold them."""
    return under_ddp(model, cluster, DDPSettings((max(DEFAULT_CAPS_MB[1], _dense_bytes(model) / MEBIBYTE),)))


def ddp_per_parameter(model: ModelSpec, cluster: ClusterSpec) -> Strategy:
    """A bucket for every parameter: the most overlap with the backward pass, and the most messages."""
    return under_ddp(model, cluster, DDPSettings((ONE_BYTE,)))


def ddp_views(model: ModelSpec, cluster: ClusterSpec) -> Strategy:
    """`gradient_as_bucket_view=True`: gradients are views of the buckets, so DDP does not copy them back."""
    return under_ddp(model, cluster, DDPSettings(gradient_as_bucket_view=True))


def ddp_static_graph(model: ModelSpec, cluster: ClusterSpec) -> Strategy:
    """`static_graph=True`: DDP learns the graph in the first step, and checks less in later steps."""
    return under_ddp(model, cluster, DDPSettings(static_graph=True))


def ddp_zero(model: ModelSpec, cluster: ClusterSpec) -> Strategy:
    """ZeroRedundancyOptimizer around the optimizer: a share of its state per rank, and a broadcast per parameter."""
    return under_ddp(model, cluster, DDPSettings(zero_redundancy_optimizer=True))


def ddp_zero_views(model: ModelSpec, cluster: ClusterSpec) -> Strategy:
    """As `ddp_zero`, with `parameters_as_bucket_view=True`: a broadcast per rank."""
    settings = DDPSettings(zero_redundancy_optimizer=True, parameters_as_bucket_view=True)
    return under_ddp(model, cluster, settings)


DDP_BASELINES: Mapping[str, Baseline] = MappingProxyType(
    {
        "ddp": ddp,
        "ddp_one_size": ddp_one_size,
        "ddp_one_bucket": ddp_one_bucket,
        "ddp_per_parameter": ddp_per_parameter,
        "ddp_views": ddp_views,
        "ddp_static_graph": ddp_static_graph,
        "ddp_zero": ddp_zero,
        "ddp_zero_views": ddp_zero_views,
    }
)
"""The ways in which people call DistributedDataParallel, its default first."""


def ddp_grid(model: ModelSpec, cluster: ClusterSpec) -> dict[str, Strategy]:
    """DistributedDataParallel as people tune it by hand: some values of `bucket_cap_mb`, which also are the names.

    Only the first of several values with the same buckets is kept.
    """
    tried = (under_ddp(model, cluster, DDPSettings(cap)) for cap in _single_caps(model))
    first: dict[object, Strategy] = {}
    for strategy in tried:
        first.setdefault(strategy.variables, strategy)
    return {f"DDP, {strategy.ddp.in_words}": strategy for strategy in first.values() if strategy.ddp is not None}


def ddp_choices(model: ModelSpec, cluster: ClusterSpec, compresses: bool = False) -> tuple[Strategy, ...]:
    """The strategies of `--space ddp`: caps of buckets, with gradients as views of buckets and without.

    With `compresses`, also each of them with its dense gradients in bfloat16, as in `--space ddp_lossy`. Caps are DDP's
    default, those of `ddp_grid`, and pairs of these with a smaller first bucket. Only the first of several settings
    with the same buckets are kept.
    """
    single = _single_caps(model)
    pairs = [(*small, *large) for large, small in combinations(single, 2)]
    first: dict[object, Strategy] = {}
    for views in (True, False):
        for cap in ((), *single, *pairs):
            strategy = under_ddp(model, cluster, DDPSettings(cap, views))
            first.setdefault((strategy.variables, views), strategy)
    exact = tuple(first.values())
    return (*exact, *(in_bf16(strategy, model) for strategy in exact)) if compresses else exact


def in_bf16(strategy: Strategy, model: ModelSpec) -> Strategy:
    """The strategy with all dense gradients of 32 and 64 bits in bfloat16 on their way."""
    wide = {v.name for v in model.variables if not v.sparse and DTYPE_BYTES[v.dtype] >= 4}
    variables = tuple(
        decision.replace_synchronizers(
            {shard: replace(shard, compressor=Cast("bf16")) for shard in decision.reductions}
            if decision.variable in wide
            else {}
        )
        for decision in strategy.variables
    )
    return replace(strategy, variables=variables)


def _single_caps(model: ModelSpec) -> list[tuple[float]]:
    """Caps in MiB, the largest first: the dense gradients halved up to `HALVINGS` times, and a byte."""
    whole = _dense_bytes(model) / MEBIBYTE
    return [*((max(ONE_BYTE, whole / 2**number),) for number in range(HALVINGS + 1)), (ONE_BYTE,)]


def _dense_bytes(model: ModelSpec) -> int:
    """Bytes of all dense gradients; at least one, so that they are a bucket's cap."""
    return max(1, sum(variable.bytes for variable in model.variables if not variable.sparse))
