"""All-reduce buckets of a draft: laid out contiguously in ready order, split, merged, and kept within their number."""

import random
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from autosync.space.domain import BucketKind, Draft, all_reduce
from autosync.space.domains import Domains
from autosync.spec import AllReduce, VariableStrategy, uncut


class ReducedShard(NamedTuple):
    """A shard that is all-reduced. `position` is when its gradient is ready: ready order plus a fraction a shard.

    Where that order is not known (`Domains.positions`), it is another one.
    """

    position: float
    variable: int
    shard: int
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


def reduced_shards(domains: Domains, draft: Draft) -> list[ReducedShard]:
    """The shards to all-reduce, in ready order."""
    found = []
    for variable, (domain, position, each) in enumerate(zip(domains.each, domains.positions, draft, strict=True)):
        if not each.reductions:
            continue
        count = len(each.shards)
        part = domain.gradient_bytes / count
        last, kind = None, None
        for index, shard in enumerate(each.shards):
            if isinstance(shard, AllReduce):
                if shard is not last or kind is None:  # shards of a variable often share one object
                    last, kind = shard, domain.bucket_kind(shard)
                found.append(ReducedShard(position + index / count, variable, index, kind, part, shard.group))
    found.sort()
    return found


def buckets_of(domains: Domains, draft: Draft) -> list[Bucket]:
    """The draft's buckets in the order their first gradients are ready; a group that mixes kinds is told apart."""
    table: dict[tuple[BucketKind, int], Bucket] = {}
    for shard in reduced_shards(domains, draft):
        key = shard.kind, shard.group
        if key not in table:
            table[key] = Bucket(shard.kind, [])
        table[key].shards.append(shard)
    return list(table.values())


def grouped(draft: Draft, buckets: Iterable[Bucket]) -> Draft:
    """The draft with `buckets`, numbered in their order and of their kinds; shards in none keep what they have."""
    changed: dict[int, dict[int, AllReduce]] = {}
    for number, bucket in enumerate(buckets):
        shared = all_reduce(number, bucket.kind.algorithm, bucket.kind.compressor)
        for shard in bucket.shards:
            changed.setdefault(shard.variable, {})[shard.shard] = shared
    return [_with_shards(each, changed[index]) if index in changed else each for index, each in enumerate(draft)]


def _with_shards(each: VariableStrategy, changed: Mapping[int, AllReduce]) -> VariableStrategy:
    if len(each.shards) == 1:
        return uncut(each.variable, changed[0])
    shards = tuple([changed.get(index, shard) for index, shard in enumerate(each.shards)])
    return each if shards == each.shards else VariableStrategy(each.variable, shards, each.partition)


def balanced_buckets(domains: Domains, draft: Draft, count: int, rng: random.Random) -> Draft:
    """Lay out at most `count` buckets of each kind, contiguous in ready order, of about equal bytes.

    Each boundary is moved by up to a third of a bucket at random; without the rule `bucket_order` it is anywhere.
    """
    balanced = "bucket_order" in domains.knowledge
    by_kind: dict[BucketKind, list[ReducedShard]] = {}
    for shard in reduced_shards(domains, draft):
        by_kind.setdefault(shard.kind, []).append(shard)
    ends = {kind: _ends(shards, count, balanced, rng) for kind, shards in by_kind.items()}
    buckets = [bucket for kind, shards in by_kind.items() for bucket in _contiguous(shards, ends[kind])]
    return grouped(draft, buckets)


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
    """The draft with groups that mix kinds told apart, and neighbouring small buckets merged until few enough."""
    buckets = buckets_of(domains, draft)
    by_kind: dict[BucketKind, list[Bucket]] = {}
    for bucket in buckets:
        by_kind.setdefault(bucket.kind, []).append(bucket)
    if all(len(same) <= domains.max_buckets for same in by_kind.values()):
        return grouped(draft, buckets) if len(by_kind) > 1 else draft
    return grouped(draft, [bucket for same in by_kind.values() for bucket in _merged(same, domains.max_buckets)])


def _merged(buckets: list[Bucket], limit: int) -> list[Bucket]:
    merged = list(buckets)
    sizes = [bucket.gradient_bytes for bucket in merged]
    while len(merged) > limit:
        first = min(range(len(merged) - 1), key=lambda index: sizes[index] + sizes[index + 1])
        merged[first : first + 2] = [
            Bucket(merged[first].kind, sorted(merged[first].shards + merged[first + 1].shards))
        ]
        sizes[first : first + 2] = [sizes[first] + sizes[first + 1]]
    return merged
