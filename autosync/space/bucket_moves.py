"""Moves that change which all-reduced shards share a bucket."""

import random
from collections import Counter

from autosync.space.buckets import Bucket, balanced_buckets, buckets_of, grouped
from autosync.space.domain import Draft
from autosync.space.domains import Domains


def merge_buckets(domains: Domains, draft: Draft, rng: random.Random) -> Draft | None:
    """Two buckets that are ready one after the other become one."""
    found = _neighbours(domains, draft, rng)
    if found is None:
        return None
    first, second, rest = found
    return grouped(draft, [Bucket(first.kind, first.shards + second.shards), *rest])


def split_bucket(domains: Domains, draft: Draft, rng: random.Random) -> Draft | None:
    """A bucket, the big ones more often, becomes two at a point in ready order; not beyond the number allowed."""
    buckets = buckets_of(domains, draft)
    counts = Counter(bucket.kind for bucket in buckets)
    able = [bucket for bucket in buckets if len(bucket.shards) > 1 and counts[bucket.kind] < domains.max_buckets]
    if not able:
        return None
    chosen = rng.choices(able, [bucket.gradient_bytes for bucket in able])[0]
    point = rng.randrange(1, len(chosen.shards))
    halves = [Bucket(chosen.kind, chosen.shards[:point]), Bucket(chosen.kind, chosen.shards[point:])]
    return grouped(draft, [*halves, *(bucket for bucket in buckets if bucket is not chosen)])


def shift_bucket_boundary(domains: Domains, draft: Draft, rng: random.Random) -> Draft | None:
    """Some shards at the end of one bucket go to the bucket that is ready next, or the other way."""
    found = _neighbours(domains, draft, rng)
    if found is None:
        return None
    first, second, rest = found
    both = first.shards + second.shards
    point = rng.randrange(1, len(both))
    return grouped(draft, [Bucket(first.kind, both[:point]), Bucket(first.kind, both[point:]), *rest])


def rebucket(domains: Domains, draft: Draft, rng: random.Random) -> Draft | None:
    """All buckets are laid out anew, contiguous in ready order and about equal in bytes."""
    shards = sum(len(bucket.shards) for bucket in buckets_of(domains, draft))
    return balanced_buckets(domains, draft, bucket_count(domains, shards, rng), rng) if shards > 1 else None


def bucket_count(domains: Domains, shards: int, rng: random.Random) -> int:
    """A number of buckets for `shards` shards, drawn evenly on a logarithmic scale."""
    most = max(1, min(domains.max_buckets, shards))
    return min(most, int((most + 1) ** rng.random()))


def _neighbours(domains: Domains, draft: Draft, rng: random.Random) -> tuple[Bucket, Bucket, list[Bucket]] | None:
    """Any two buckets of one kind with none of that kind between them, and the rest; None where there are none."""
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
