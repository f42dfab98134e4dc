"""Crossover: a draft composed of the decisions of two parents."""

import random

from autosync.space.buckets import Bucket, ReducedShard, all_reduced_shards, regroup
from autosync.space.domain import BucketKind, Draft, all_reduce
from autosync.space.domains import Domains
from autosync.space.move_context import nearest_shard
from autosync.spec import AllReduce, VariableStrategy


def cross(domains: Domains, first: Draft, second: Draft, rng: random.Random) -> Draft:
    """Take either parent's decision for each variable; buckets stay whole where possible.

    Half of the time, variables are drawn independently, and shards join the buckets of one parent. Otherwise, gradients
    that are ready before a random point follow one parent and later gradients the other, with that parent's buckets.
    """
    if rng.random() < 0.5:
        first, second = second, first
    if rng.random() < 0.5:
        child = [left if rng.random() < 0.5 else right for left, right in zip(first, second, strict=True)]
        return _regroup_like(domains, child, first)
    point = rng.randint(1, max(1, len(first) - 1))
    renumbered = _renumber(second, 1 + _last_group(first))
    return [
        left if position < point else right
        for position, left, right in zip(domains.positions, first, renumbered, strict=True)
    ]


def _regroup_like(domains: Domains, draft: Draft, parent: Draft) -> Draft:
    """The draft in the parent's buckets: a shard joins the bucket of the parent's shard with the nearest ready order.

    A kind that the parent does not all-reduce gets one bucket.
    """
    by_kind: dict[BucketKind, list[ReducedShard]] = {}
    for shard in all_reduced_shards(domains, parent):
        by_kind.setdefault(shard.kind, []).append(shard)
    buckets: dict[tuple[BucketKind, int], Bucket] = {}
    for shard in all_reduced_shards(domains, draft):
        near = by_kind.get(shard.kind)
        group = nearest_shard(near, shard.position).group if near else 0
        buckets.setdefault((shard.kind, group), Bucket(shard.kind, [])).shards.append(shard)
    return regroup(draft, buckets.values())


def _last_group(draft: Draft) -> int:
    return max(
        (shard.group for decision in draft for shard in decision.shards if isinstance(shard, AllReduce)), default=-1
    )


def _renumber(draft: Draft, offset: int) -> Draft:
    return [
        VariableStrategy(
            decision.variable,
            tuple(
                all_reduce(shard.group + offset, shard.algorithm, shard.compressor)
                if isinstance(shard, AllReduce)
                else shard
                for shard in decision.shards
            ),
            decision.partition,
        )
        for decision in draft
    ]
