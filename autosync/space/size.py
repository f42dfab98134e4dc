"""How many strategies a bound space holds, and all of them one by one when they are few.

Notation: b is the most buckets of a kind; P(x) is the number of ways to decide the kind's variables were there x
buckets to tell apart, the product over variables of `Domain.labelled_choices(x)`. Buckets have no names, so decisions
that differ by renaming buckets are one. By Burnside's lemma their number is the mean, over the b! renamings, of the
decisions each leaves as they are; one that fixes i names leaves P(i). There are C(b, i) !(b - i) of those, where !n
counts the renamings of n buckets that fix none (subfactorial):

    strategies = 1/b! sum_i C(b, i) !(b - i) P(i)
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from autosync.space.domain import BucketKind, Domain, Domains, Draft, all_reduce
from autosync.spec import AllReduce, ParameterServer, Synchronizer, VariableStrategy

__all__ = ["all_drafts", "count_strategies"]


def count_strategies(domains: Domains) -> int:
    """The exact number of strategies, renumbered buckets counted once and devices that are alike told apart."""
    by_kind: dict[BucketKind, list[Domain]] = {}
    for domain in domains.each:
        by_kind.setdefault(domain.bucket_kind, []).append(domain)
    return math.prod(_count_kind(same, domains.max_buckets) for same in by_kind.values())


def _count_kind(same: list[Domain], max_buckets: int) -> int:
    most_shards = sum(max(cut.shards if cut else 1 for cut in domain.cuts) for domain in same if domain.reduced)
    buckets = min(max_buckets, most_shards)
    subfactorials = _subfactorials(buckets)
    fixed = sum(
        math.comb(buckets, named)
        * subfactorials[buckets - named]
        * math.prod(domain.labelled_choices(named) for domain in same)
        for named in range(buckets + 1)
    )
    return fixed // math.factorial(buckets)


def _subfactorials(most: int) -> list[int]:
    values = [1]
    for count in range(1, most + 1):
        values.append(count * values[-1] + (-1) ** count)
    return values


def all_drafts(domains: Domains) -> Iterator[Draft]:
    """Every strategy once, as a draft; `count_strategies` of them."""
    yield from _drafts_from(domains, 0, {})


def _drafts_from(domains: Domains, index: int, used: dict[BucketKind, int]) -> Iterator[Draft]:
    """Decisions for the variables from `index` on, where `used` buckets of each kind are taken already."""
    if index == len(domains.each):
        yield []
        return
    domain = domains.each[index]
    kind = domain.bucket_kind
    for each, buckets in _decisions(domains, domain, used.get(kind, 0)):
        for rest in _drafts_from(domains, index + 1, used | {kind: buckets}):
            yield [each, *rest]


def _decisions(domains: Domains, domain: Domain, used: int) -> Iterator[tuple[VariableStrategy, int]]:
    """Each decision for one variable, with the number of buckets of its kind then in use."""
    buckets = _buckets(domains, domain)
    offers = [(domain.servers, buckets)] if domain.mixed_shards else [(domain.servers, ()), ((), buckets)]
    for cut in domain.cuts:
        for servers, groups in offers:
            for shards, then_used in _fillings(servers, groups, cut.shards if cut else 1, used):
                yield VariableStrategy(domain.variable.name, shards, cut), then_used


def _fillings(
    servers: tuple[ParameterServer, ...], buckets: tuple[AllReduce, ...], count: int, used: int
) -> Iterator[tuple[tuple[Synchronizer, ...], int]]:
    """Ways to synchronize `count` shards; only the next new bucket may be opened, so that none is met twice."""
    if count == 0:
        yield (), used
        return
    for server in servers:
        for rest, then_used in _fillings(servers, buckets, count - 1, used):
            yield (server, *rest), then_used
    for label, bucket in enumerate(buckets[: used + 1]):
        for rest, then_used in _fillings(servers, buckets, count - 1, max(used, label + 1)):
            yield (bucket, *rest), then_used


def _buckets(domains: Domains, domain: Domain) -> tuple[AllReduce, ...]:
    """The buckets of the domain's kind; kinds take turns, so that no two share a number."""
    kinds = list(dict.fromkeys(each.bucket_kind for each in domains.each))
    turn = kinds.index(domain.bucket_kind)
    return tuple(all_reduce(label * len(kinds) + turn) for label in range(domains.max_buckets if domain.reduced else 0))
