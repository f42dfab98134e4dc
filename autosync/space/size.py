"""How many strategies a bound space holds, counted without listing them.

Notation: b is the most buckets of a kind; P(x) is the number of ways to decide variables were there x buckets to tell
apart, the product over variables of `_Choices.choices`. Buckets have no names, so decisions that differ by renaming
buckets of a kind are one. By Burnside's lemma their number is the mean, over the b! renamings, of the decisions each
leaves as they are; one that fixes i names leaves P(i). There are C(b, i) !(b - i) of those, where !n counts the
renamings of n buckets that fix none (subfactorial):

    strategies = 1/b! sum_i C(b, i) !(b - i) P(i)

Kinds that the same variables are offered (several algorithms, say) form a class of k kinds, whose fixed names add up:
the weights of their sums are the k-fold convolution of the weights above. Over several classes the sum is a multiple
one; where it has over `MOST_TERMS` terms, its largest one stands for it, which is too few by that factor at most.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

from autosync.space.domain import BucketKind, Domain
from autosync.space.domains import Domains
from autosync.space.staleness import is_plain
from autosync.spec import AllReduce, Partition

MOST_TERMS = 2048

_Choices: TypeAlias = tuple[int, int, int, bool]
"""A cut: its shards, servers for each, other all-reduces that need no bucket to share, whether shards may mix."""


def count_strategies(domains: Domains) -> int:
    """The number of strategies, renumbered buckets counted once and devices that are alike told apart."""
    by_look: dict[tuple[str, bool], list[Domain]] = {}
    for domain in domains.each:
        by_look.setdefault((domain.variable.dtype, domain.variable.sparse), []).append(domain)
    fresh = math.prod(_count_look(same, domains.max_buckets) for same in by_look.values())
    stale = sum(steps > 0 for steps in domains.staleness)
    return fresh + stale * math.prod(_stale_choices(domain) for domain in domains.each)


def log_choices(domains: Domains) -> list[float]:
    """The natural logarithm of the number of decisions that each variable has by itself, buckets told apart."""
    return [math.log(_Decider.alone(domain, domains.max_buckets)) for domain in domains.each]


@dataclass(frozen=True)
class _Class:
    """Kinds of buckets that the same variables are offered: `weights[i] / divisor` weighs the decisions fixed by i."""

    members: frozenset[int]
    weights: tuple[int, ...]
    divisor: int


def _count_look(same: list[Domain], max_buckets: int) -> int:
    """Strategies of variables that are all alike sparse and of one dtype."""
    classes = [_class(members, kinds, same, max_buckets) for members, kinds in _offered_kinds(same).items()]
    deciders = [_Decider.of(domain, index, classes) for index, domain in enumerate(same)]

    def decided(fixed: Sequence[int]) -> int:
        return math.prod(each.choices(fixed) for each in deciders)

    divisor = math.prod(each.divisor for each in classes)
    if math.prod(len(each.weights) for each in classes) > MOST_TERMS and len(classes) > 1:
        return _largest_term(classes, decided) // divisor
    terms = (
        math.prod(each.weights[names] for each, names in zip(classes, fixed, strict=True)) * decided(fixed)
        for fixed in product(*(range(len(each.weights)) for each in classes))
    )
    return sum(terms) // divisor


def _offered_kinds(same: list[Domain]) -> dict[frozenset[int], int]:
    """How many kinds of shared buckets each set of variables, by index, is offered alone."""
    offered: dict[BucketKind, set[int]] = {}
    for index, domain in enumerate(same):
        for kind in _shared_kinds(domain):
            offered.setdefault(kind, set()).add(index)
    counts: dict[frozenset[int], int] = {}
    for members in map(frozenset, offered.values()):
        counts[members] = counts.get(members, 0) + 1
    return counts


def _shared_kinds(domain: Domain) -> list[BucketKind]:
    return [kind for kind in map(domain.bucket_kind, domain.reductions) if kind.alone < 0]


def _class(members: frozenset[int], kinds: int, same: list[Domain], max_buckets: int) -> _Class:
    most_shards = sum(max(_shards(cut) for cut in same[index].cuts) for index in members)
    buckets = min(max_buckets, most_shards)
    subfactorials = _subfactorials(buckets)
    one = [math.comb(buckets, named) * subfactorials[buckets - named] for named in range(buckets + 1)]
    weights = [1]
    for _ in range(kinds):
        weights = _convolved(weights, one)
    return _Class(members, tuple(weights), math.factorial(buckets) ** kinds)


@dataclass(frozen=True)
class _Decider:
    """One variable's number of decisions, by how many buckets of each of its classes there are."""

    classes: tuple[int, ...]
    cuts: tuple[_Choices, ...]

    @classmethod
    def of(cls, domain: Domain, index: int, classes: Sequence[_Class]) -> _Decider:
        own = tuple(number for number, each in enumerate(classes) if index in each.members)
        return cls(own, tuple(_choices(domain, cut) for cut in domain.cuts))

    @classmethod
    def alone(cls, domain: Domain, max_buckets: int) -> int:
        """Decisions on the variable when every kind of bucket that it is offered has `max_buckets`."""
        kinds = len(_shared_kinds(domain))
        own = cls(tuple(range(kinds)), tuple(_choices(domain, cut) for cut in domain.cuts))
        return own.choices([max_buckets] * kinds)

    def choices(self, fixed: Sequence[int]) -> int:
        buckets = sum(fixed[number] for number in self.classes)
        total = 0
        for shards, servers, alone, mixed in self.cuts:
            if mixed or shards == 1:
                total += (servers + alone + buckets) ** shards
            else:
                total += servers**shards + (alone + buckets) ** shards
        return total


def _choices(domain: Domain, cut: Partition | None) -> _Choices:
    alone = sum(_is_alone(domain, shard) for shard in domain.reductions_for(cut))
    return _shards(cut), len(domain.servers_for(cut)), alone, domain.mixed_shards


def _is_alone(domain: Domain, shard: AllReduce) -> bool:
    return domain.bucket_kind(shard).alone >= 0


def _stale_choices(domain: Domain) -> int:
    plain = sum(map(is_plain, domain.servers))
    return sum(plain ** _shards(cut) for cut in domain.cuts)


def _shards(cut: Partition | None) -> int:
    return cut.shards if cut else 1


def _largest_term(classes: Sequence[_Class], decided: Callable[[Sequence[int]], int]) -> int:
    """The largest term of the multiple sum, climbed to along one class after the other."""
    fixed = [len(each.weights) - 1 for each in classes]

    def term(number: int, names: int) -> int:
        point = [*fixed[:number], names, *fixed[number + 1 :]]
        weighed = math.prod(each.weights[at] for each, at in zip(classes, point, strict=True))
        return weighed * decided(point)

    best = 0
    for _ in range(2):
        for number, each in enumerate(classes):
            fixed[number] = _highest(lambda names, at=number: term(at, names), len(each.weights) - 1)  # type: ignore[misc]
            best = max(best, term(number, fixed[number]))
    return best


def _highest(height: Callable[[int], int], last: int) -> int:
    """The number from 0 to `last` where `height` is largest: looked for ever more finely around the best so far."""
    low, high = 0, last
    while high - low > 8:
        step = (high - low) // 8
        best = max(range(low, high + 1, step), key=height)
        low, high = max(0, best - step), min(last, best + step)
        if step == 1:
            break
    return max(range(low, high + 1), key=height)


def _convolved(first: Sequence[int], second: Sequence[int]) -> list[int]:
    result = [0] * (len(first) + len(second) - 1)
    for index, one in enumerate(first):
        for offset, other in enumerate(second):
            result[index + offset] += one * other
    return result


def _subfactorials(most: int) -> list[int]:
    values = [1]
    for count in range(1, most + 1):
        values.append(count * values[-1] + (-1) ** count)
    return values
