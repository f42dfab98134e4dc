"""Moves that change which all-reduced shards share a bucket."""

import random

from autosync.space.buckets import Bucket, balanced_buckets, buckets_of, grouped
from autosync.space.domain import Draft
from autosync.space.domains import Domains


def merge_buckets(domains: Domains, draft: Draft, rng: random.Random) -> Draft | None:
    """Two buckets that are ready one after the other become one."""
    buckets = buckets_of(domains, draft)
    pairs = _neighbours(buckets)
    if not pairs:
        return None
    first, second = rng.choice(pairs)
    merged = Bucket(buckets[first].kind, buckets[first].shards + buckets[second].shards)
    rest = [bucket for index, bucket in enumerate(buckets) if index not in (first, second)]
    return grouped(draft, [merged, *rest])


def split_bucket(domains: Domains, draft: Draft, rng: random.Random) -> Draft | None:
    """A bucket, the big ones more often, becomes two at a point in ready order; not beyond the number allowed."""
    buckets = buckets_of(domains, draft)
    counts: dict[object, int] = {}
    for bucket in buckets:
        counts[bucket.kind] = counts.get(bucket.kind, 0) + 1
    able = [bucket for bucket in buckets if len(bucket.shards) > 1 and counts[bucket.kind] < domains.max_buckets]
    if not able:
        return None
    chosen = rng.choices(able, [bucket.gradient_bytes for bucket in able])[0]
    point = rng.randrange(1, len(chosen.shards))
    halves = [Bucket(chosen.kind, chosen.shards[:point]), Bucket(chosen.kind, chosen.shards[point:])]
    return grouped(draft, [*halves, *(bucket for bucket in buckets if bucket is not chosen)])


def shift_bucket_boundary(domains: Domains, draft: Draft, rng: random.Random) -> Draft | None:
    """Some shards at the end of one bucket go to the bucket that is ready next, or the other way."""
    buckets = buckets_of(domains, draft)
    pairs = _neighbours(buckets)
    if not pairs:
        return None
    first, second = rng.choice(pairs)
    both = buckets[first].shards + buckets[second].shards
    point = rng.randrange(1, len(both))
    halves = [Bucket(buckets[first].kind, both[:point]), Bucket(buckets[first].kind, both[point:])]
    return grouped(draft, [*halves, *(bucket for index, bucket in enumerate(buckets) if index not in (first, second))])


def rebucket(domains: Domains, draft: Draft, rng: random.Random) -> Draft | None:
    """All buckets are laid out anew, contiguous in ready order and about equal in bytes."""
    shards = sum(len(bucket.shards) for bucket in buckets_of(domains, draft))
    return balanced_buckets(domains, draft, bucket_count(domains, shards, rng), rng) if shards > 1 else None


def bucket_count(domains: Domains, shards: int, rng: random.Random) -> int:
    """A number of buckets for `shards` shards, drawn evenly on a logarithmic scale."""
    most = max(1, min(domains.max_buckets, shards))
    return min(most, int((most + 1) ** rng.random()))


def _neighbours(buckets: list[Bucket]) -> list[tuple[int, int]]:
    """Pairs of buckets of one kind with none of that kind between them."""
    last: dict[object, int] = {}
    pairs = []
    for index, bucket in enumerate(buckets):
        if bucket.kind in last:
            pairs.append((last[bucket.kind], index))
        last[bucket.kind] = index
    return pairs
