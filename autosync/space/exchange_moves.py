"""Moves that change how gradients are sent: a bucket's algorithm, a variable's compressor, the staleness of all."""

import random
from collections.abc import Iterable, Sequence

from autosync.space.buckets import Bucket, buckets_of, regroup
from autosync.space.domain import Domain, Draft
from autosync.space.domains import Domains
from autosync.space.placement import biggest
from autosync.space.staleness import can_be_stale, with_staleness
from autosync.spec import AllReduce, Compressor, VariableStrategy


def change_algorithm(domains: Domains, draft: Draft, rng: random.Random) -> Draft | None:
    """One bucket is reduced by another algorithm."""
    if not domains.several_algorithms:
        return None
    buckets = buckets_of(domains, draft)
    return with_other_algorithm(domains, draft, buckets, range(len(buckets)), rng)


def with_other_algorithm(
    domains: Domains, draft: Draft, buckets: Sequence[Bucket], among: Iterable[int], rng: random.Random
) -> Draft | None:
    """One of the draft's `buckets`, with an index in `among`, gets another algorithm; None if no bucket can change."""
    able = [index for index in among if len(common_algorithms(domains, buckets[index])) > 1]
    if not able:
        return None
    chosen = rng.choice(able)
    others = [
        algorithm
        for algorithm in common_algorithms(domains, buckets[chosen])
        if algorithm != buckets[chosen].kind.algorithm
    ]
    changed = list(buckets)
    changed[chosen] = _by(buckets[chosen], rng.choice(others))
    return regroup(draft, changed)


def change_algorithms(domains: Domains, draft: Draft, rng: random.Random) -> Draft | None:
    """All buckets under, or over, a random size get the same algorithm, where it is offered."""
    if not domains.several_algorithms:
        return None
    buckets = buckets_of(domains, draft)
    able = [bucket for bucket in buckets if len(common_algorithms(domains, bucket)) > 1]
    if not able:
        return None
    wanted = rng.choice(common_algorithms(domains, rng.choice(able)))
    able.sort(key=lambda bucket: bucket.gradient_bytes)
    point = rng.randrange(len(able) + 1)
    chosen = able[:point] if rng.random() < 0.5 else able[point:]
    ids = {id(bucket) for bucket in chosen if wanted in common_algorithms(domains, bucket)}
    return regroup(draft, [_by(bucket, wanted) if id(bucket) in ids else bucket for bucket in buckets])


def any_algorithms(domains: Domains, draft: Draft, rng: random.Random) -> Draft:
    """Each bucket gets a random algorithm, independently."""
    buckets = buckets_of(domains, draft)
    return regroup(draft, [_by(bucket, rng.choice(common_algorithms(domains, bucket))) for bucket in buckets])


def compress_one(domains: Domains, draft: Draft, rng: random.Random) -> Draft | None:
    """One variable's gradient is sent in another way."""
    return _recompress(domains, draft, [rng.choice(domains.compressible)], rng) if domains.compressible else None


def compress_alike(domains: Domains, draft: Draft, rng: random.Random) -> Draft | None:
    """The gradients of all variables of one shape are sent in another way."""
    able = frozenset(domains.compressible)
    groups = [group for group in domains.alike if len(group) > 1 and group[0] in able]
    return _recompress(domains, draft, rng.choice(groups), rng) if groups else None


def compress_big(domains: Domains, draft: Draft, rng: random.Random) -> Draft | None:
    """The gradients of the variables over a random size are sent in another way."""
    able = frozenset(domains.compressible)
    big = [index for index in biggest(domains, rng) if index in able] if able else []
    return _recompress(domains, draft, big, rng) if big else None


def change_staleness(domains: Domains, draft: Draft, rng: random.Random) -> Draft | None:
    """Replicas may run ahead by another number of steps, if the draft can be stale."""
    if len(domains.staleness) < 2 or not can_be_stale(draft):
        return None
    return with_staleness(draft, rng.choice(domains.staleness))


def common_algorithms(domains: Domains, bucket: Bucket) -> list[str]:
    """The algorithms that all variables of the bucket are offered with its compressor."""
    members = [domains.each[index] for index in {shard.variable for shard in bucket.shards}]
    first, *rest = (domain.algorithms(bucket.kind.compressor) for domain in members)
    return [algorithm for algorithm in first if all(algorithm in offered for offered in rest)]


def compress_variable(domain: Domain, decision: VariableStrategy, compressor: Compressor | None) -> VariableStrategy:
    """The variable with `compressor` on all shards where it is offered; other shards stay unchanged."""
    whole = decision.partition is None
    shards = tuple(
        domain.reducing(shard.group, shard.algorithm, compressor, whole)
        if isinstance(shard, AllReduce)
        else domain.on(shard.device, shard.local_copy, compressor, whole)
        for shard in decision.shards
    )
    return decision if shards == decision.shards else VariableStrategy(decision.variable, shards, decision.partition)


def _recompress(domains: Domains, draft: Draft, indexes: Sequence[int], rng: random.Random) -> Draft | None:
    """The first variable gets a compressor that it did not have, and the other variables the same."""
    domain, decision = domains.each[indexes[0]], draft[indexes[0]]
    able = [option for option in domain.compressors if compress_variable(domain, decision, option) != decision]
    if not able:
        return None
    wanted, result = rng.choice(able), list(draft)
    for index in indexes:
        result[index] = compress_variable(domains.each[index], draft[index], wanted)
    return result


def _by(bucket: Bucket, algorithm: str) -> Bucket:
    return Bucket(bucket.kind._replace(algorithm=algorithm), bucket.shards)
