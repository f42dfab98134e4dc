"""Crossover: a draft made of the decisions of two others."""

import random

from autosync.space.buckets import Bucket, ReducedShard, grouped, reduced_shards
from autosync.space.domain import BucketKind, Draft, all_reduce
from autosync.space.domains import Domains
from autosync.space.surroundings import nearest_shard
from autosync.spec import AllReduce, VariableStrategy


def crossed(domains: Domains, first: Draft, second: Draft, rng: random.Random) -> Draft:
    """Either parent's decision for each variable; buckets stay whole where they can.

    Half of the time variables are drawn one by one, and shards join the buckets of one parent; else the gradients
    ready before a random point follow one parent, and the later ones the other, each with its own buckets.
    """
    if rng.random() < 0.5:
        first, second = second, first
    if rng.random() < 0.5:
        child = [ours if rng.random() < 0.5 else theirs for ours, theirs in zip(first, second, strict=True)]
        return _grouped_like(domains, child, first)
    point = rng.randint(1, max(1, len(first) - 1))
    others = _renumbered(second, 1 + _last_group(first))
    return [
        ours if position < point else theirs
        for position, ours, theirs in zip(domains.positions, first, others, strict=True)
    ]


def _grouped_like(domains: Domains, draft: Draft, parent: Draft) -> Draft:
    """The draft in the parent's buckets: each shard joins the bucket of the parent's shard that is ready nearest.

    A kind that the parent does not all-reduce gets one bucket.
    """
    by_kind: dict[BucketKind, list[ReducedShard]] = {}
    for shard in reduced_shards(domains, parent):
        by_kind.setdefault(shard.kind, []).append(shard)
    buckets: dict[tuple[BucketKind, int], Bucket] = {}
    for shard in reduced_shards(domains, draft):
        near = by_kind.get(shard.kind)
        group = nearest_shard(near, shard.position).group if near else 0
        buckets.setdefault((shard.kind, group), Bucket(shard.kind, [])).shards.append(shard)
    return grouped(draft, buckets.values())


def _last_group(draft: Draft) -> int:
    return max((shard.group for each in draft for shard in each.shards if isinstance(shard, AllReduce)), default=-1)


def _renumbered(draft: Draft, offset: int) -> Draft:
    return [
        VariableStrategy(
            each.variable,
            tuple(
                all_reduce(shard.group + offset, shard.algorithm, shard.compressor)
                if isinstance(shard, AllReduce)
                else shard
                for shard in each.shards
            ),
            each.partition,
        )
        for each in draft
    ]
