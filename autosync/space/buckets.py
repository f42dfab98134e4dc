"""All-reduce buckets of a draft: laid out contiguously in ready order, split, and merged until few enough."""

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from autosync.space.domain import BucketKind, Draft, all_reduce
from autosync.space.domains import Domains
from autosync.spec import AllReduce, VariableStrategy, uncut


class ReducedShard(NamedTuple):
    """A shard that is all-reduced."""

    position: float
    """Ready order of the variable plus the shard's fraction of it; an arbitrary order if the ready order is unknown
    (`Domains.positions`)."""
    variable: int
    """Index of the variable in graph order."""
    shard: int
    """Index of the shard in the variable."""
    kind: BucketKind
    gradient_bytes: float
    group: int


class Bucket(NamedTuple):
    """Shards of one kind that are reduced together, in ready order."""

    kind: BucketKind
    shards: list[ReducedShard]

    @property
    def gradient_bytes(self) -> float:
        return sum(shard.gradient_bytes for shard in self.shards)


def all_reduced_shards(domains: Domains, draft: Draft, order: Sequence[int] | None = None) -> list[ReducedShard]:
    """The shards of the draft that are all-reduced, in ready order, or in the `order` of the variables' positions."""
    reduced = []
    positions = domains.positions if order is None else order
    for variable, (domain, position, decision) in enumerate(zip(domains.each, positions, draft, strict=True)):
        if not decision.reductions:
            continue
        count = len(decision.shards)
        part = domain.gradient_bytes / count
        last, kind = None, None
        for index, shard in enumerate(decision.shards):
            if isinstance(shard, AllReduce):
                if shard is not last or kind is None:  # shards of a variable often share one object
                    last, kind = shard, domain.bucket_kind(shard)
                reduced.append(ReducedShard(position + index / count, variable, index, kind, part, shard.group))
    reduced.sort()
    return reduced


def buckets_of(domains: Domains, draft: Draft) -> list[Bucket]:
    """The draft's buckets in the order their first gradients are ready; a group that mixes kinds is several buckets."""
    table: dict[tuple[BucketKind, int], Bucket] = {}
    for shard in all_reduced_shards(domains, draft):
        key = shard.kind, shard.group
        if key not in table:
            table[key] = Bucket(shard.kind, [])
        table[key].shards.append(shard)
    return list(table.values())


def regroup(draft: Draft, buckets: Iterable[Bucket]) -> Draft:
    """The draft with `buckets`, numbered in order and with their kinds; shards in no bucket stay unchanged."""
    changed: dict[int, dict[int, AllReduce]] = {}
    for number, bucket in enumerate(buckets):
        shared = all_reduce(number, bucket.kind.algorithm, bucket.kind.compressor)
        for shard in bucket.shards:
            changed.setdefault(shard.variable, {})[shard.shard] = shared
    return [
        _with_shards(decision, changed[index]) if index in changed else decision for index, decision in enumerate(draft)
    ]


def _with_shards(decision: VariableStrategy, changed: Mapping[int, AllReduce]) -> VariableStrategy:
    if len(decision.shards) == 1:
        return uncut(decision.variable, changed[0])
    shards = tuple([changed.get(index, shard) for index, shard in enumerate(decision.shards)])
    return decision if shards == decision.shards else VariableStrategy(decision.variable, shards, decision.partition)


def lay_out_buckets(domains: Domains, draft: Draft, count: int, rng: random.Random) -> Draft:
    """Lay out at most `count` buckets of each kind, contiguous in ready order, of about equal bytes.

    Each boundary is shifted at random by up to a third of a bucket; without the rule `bucket_order`, it is anywhere.
    """
    balanced = "bucket_order" in domains.knowledge
    by_kind = _by_kind(all_reduced_shards(domains, draft))
    ends = {kind: _ends(shards, count, balanced, rng) for kind, shards in by_kind.items()}
    buckets = [bucket for kind, shards in by_kind.items() for bucket in _contiguous(shards, ends[kind])]
    return regroup(draft, buckets)


def lay_out_small_buckets(domains: Domains, draft: Draft, most_bytes: int, order: Sequence[int]) -> Draft:
    """Lay out buckets of about equal bytes, at most about `most_bytes` if the limit allows, contiguous in `order`.

    `order` are positions of the variables.
    """
    buckets: list[Bucket] = []
    for shards in _by_kind(all_reduced_shards(domains, draft, order)).values():
        total = sum(shard.gradient_bytes for shard in shards)
        count = max(1, min(domains.max_buckets, math.ceil(total / most_bytes)))
        ends = [total * (index + 1) / count for index in range(count - 1)]
        buckets += _contiguous(shards, [*ends, math.inf])
    return regroup(draft, buckets)


def _by_kind(shards: Iterable[ReducedShard]) -> dict[BucketKind, list[ReducedShard]]:
    by_kind: dict[BucketKind, list[ReducedShard]] = {}
    for shard in shards:
        by_kind.setdefault(shard.kind, []).append(shard)
    return by_kind


def _ends(shards: list[ReducedShard], count: int, balanced: bool, rng: random.Random) -> list[float]:
    """The bytes after which each of `count` buckets is full."""
    total = sum(shard.gradient_bytes for shard in shards)
    if balanced:
        ends = [total * (index + 1 + rng.uniform(-1, 1) / 3) / count for index in range(count - 1)]
    else:
        ends = sorted(rng.uniform(0, total) for _ in range(count - 1))
    return [*ends, float("inf")]


def _contiguous(shards: list[ReducedShard], ends: list[float]) -> list[Bucket]:
    buckets: list[list[ReducedShard]] = [[] for _ in ends]
    before, index = 0.0, 0
    for shard in shards:
        while before + shard.gradient_bytes / 2 > ends[index]:
            index += 1
        buckets[index].append(shard)
        before += shard.gradient_bytes
    return [Bucket(shards[0].kind, members) for members in buckets if members]


def within_limits(domains: Domains, draft: Draft) -> Draft:
    """The draft with groups that mix kinds split by kind, and neighbouring small buckets merged until few enough."""
    buckets = buckets_of(domains, draft)
    by_kind: dict[BucketKind, list[Bucket]] = {}
    for bucket in buckets:
        by_kind.setdefault(bucket.kind, []).append(bucket)
    if all(len(same) <= domains.max_buckets for same in by_kind.values()):
        return regroup(draft, buckets) if len(by_kind) > 1 else draft
    return regroup(draft, [bucket for same in by_kind.values() for bucket in _merge(same, domains.max_buckets)])


def _merge(buckets: list[Bucket], limit: int) -> list[Bucket]:
    merged = list(buckets)
    sizes = [bucket.gradient_bytes for bucket in merged]
    while len(merged) > limit:
        first = min(range(len(merged) - 1), key=lambda index: sizes[index] + sizes[index + 1])
        merged[first : first + 2] = [
            Bucket(merged[first].kind, sorted(merged[first].shards + merged[first + 1].shards))
        ]
        sizes[first : first + 2] = [sizes[first] + sizes[first + 1]]
    return merged
