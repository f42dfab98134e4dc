"""Moves that change which all-reduced shards share a bucket."""

import random
from collections import Counter

from autosync.space.buckets import Bucket, buckets_of, lay_out_buckets, regroup
from autosync.space.domain import Draft
from autosync.space.domains import Domains


def merge_buckets(domains: Domains, draft: Draft, rng: random.Random) -> Draft | None:
    """Two buckets that are ready one after the other become one bucket."""
    neighbours = _neighbours(domains, draft, rng)
    if neighbours is None:
        return None
    first, second, rest = neighbours
    return regroup(draft, [Bucket(first.kind, first.shards + second.shards), *rest])


def split_bucket(domains: Domains, draft: Draft, rng: random.Random) -> Draft | None:
    """A bucket is split in two at a point in ready order, if the limit allows; big buckets are chosen more often."""
    buckets = buckets_of(domains, draft)
    counts = Counter(bucket.kind for bucket in buckets)
    able = [bucket for bucket in buckets if len(bucket.shards) > 1 and counts[bucket.kind] < domains.max_buckets]
    if not able:
        return None
    chosen = rng.choices(able, [bucket.gradient_bytes for bucket in able])[0]
    point = rng.randrange(1, len(chosen.shards))
    halves = [Bucket(chosen.kind, chosen.shards[:point]), Bucket(chosen.kind, chosen.shards[point:])]
    return regroup(draft, [*halves, *(bucket for bucket in buckets if bucket is not chosen)])


def shift_bucket_boundary(domains: Domains, draft: Draft, rng: random.Random) -> Draft | None:
    """Some shards move between two buckets that are ready one after the other, across their boundary."""
    neighbours = _neighbours(domains, draft, rng)
    if neighbours is None:
        return None
    first, second, rest = neighbours
    joined = first.shards + second.shards
    point = rng.randrange(1, len(joined))
    return regroup(draft, [Bucket(first.kind, joined[:point]), Bucket(first.kind, joined[point:]), *rest])


def rebucket(domains: Domains, draft: Draft, rng: random.Random) -> Draft | None:
    """All buckets are laid out again, contiguous in ready order and about equal in bytes."""
    shards = sum(len(bucket.shards) for bucket in buckets_of(domains, draft))
    return lay_out_buckets(domains, draft, bucket_count(domains, shards, rng), rng) if shards > 1 else None


def bucket_count(domains: Domains, shards: int, rng: random.Random) -> int:
    """Draw a number of buckets for `shards` shards, uniformly on a logarithmic scale."""
    most = max(1, min(domains.max_buckets, shards))
    return min(most, int((most + 1) ** rng.random()))


def _neighbours(domains: Domains, draft: Draft, rng: random.Random) -> tuple[Bucket, Bucket, list[Bucket]] | None:
    """Draw two buckets of one kind with no bucket of that kind between them; also return the other buckets. None if
    there is no such pair."""
    buckets = buckets_of(domains, draft)
    last: dict[object, Bucket] = {}
    pairs = []
    for bucket in buckets:
        if bucket.kind in last:
            pairs.append((last[bucket.kind], bucket))
        last[bucket.kind] = bucket
    if not pairs:
        return None
    first, second = rng.choice(pairs)
    return first, second, [bucket for bucket in buckets if bucket is not first and bucket is not second]
