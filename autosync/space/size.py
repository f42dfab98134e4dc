"""Counts the strategies of a bound space without listing them.

Notation: b is the most buckets of a kind; P(x) is the number of ways to decide all variables with x distinguishable
buckets, the product over variables of `_Decider.choices`. Buckets have no names, so decisions that differ by renaming
buckets of a kind are the same. By Burnside's lemma, the number of different decisions is the mean, over the b!
renamings, of the number of decisions that a renaming leaves unchanged. A renaming that fixes i names leaves P(i)
decisions unchanged. There are C(b, i) !(b - i) such renamings, where !n (subfactorial) counts the renamings of n
buckets without a fixed name:

    strategies = 1/b! sum_i C(b, i) !(b - i) P(i)

Kinds that are offered to the same variables (several algorithms, say) form a class of k kinds, whose fixed names add
up: the weights of their sums are the k-fold convolution of the weights above. Several classes give a multiple sum. If
the sum has over `MOST_TERMS` terms, the count is its largest term, which is too small by at most the number of terms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

from autosync.space.domain import BucketKind, Domain
from autosync.space.domains import Domains
from autosync.space.staleness import is_plain
from autosync.spec import AllReduce, Partition

MOST_TERMS = 2048

_Choices: TypeAlias = tuple[int, int, int, bool]
"""A cut: its shards, the servers per shard, the all-reduces that share no bucket, and whether shards may mix kinds."""


def count_strategies(domains: Domains) -> int:
    """The number of strategies; renumbered buckets count once, devices that are alike count separately."""
    stale = sum(steps > 0 for steps in domains.staleness)
    sides = (1 << len(domains.tied)) * (2 if domains.overlap else 1)
    fresh = _count_fresh(domains.each, domains.max_buckets) * sides
    return fresh + stale * math.prod(_stale_choices(domain) for domain in domains.each)


def _count_fresh(each: Iterable[Domain], max_buckets: int) -> int:
    """The number of strategies without staleness, overlap and rows apart."""
    by_look: dict[tuple[str, bool], list[Domain]] = {}
    for domain in each:
        by_look.setdefault((domain.variable.dtype, domain.variable.sparse), []).append(domain)
    return math.prod(_count_look(same, max_buckets) for same in by_look.values())


def log_choices(domains: Domains) -> list[float]:
    """The natural logarithm of each variable's number of decisions; its buckets are distinguishable."""
    return [
        math.log(_Decider.count_alone(domain, domains.max_buckets) * (2 if domain.variable.name in domains.tied else 1))
        for domain in domains.each
    ]


@dataclass(frozen=True)
class _Class:
    """Kinds of buckets that are offered to the same variables.

    `weights[i] / divisor` is the weight of the decisions with i fixed names.
    """

    members: frozenset[int]
    weights: tuple[int, ...]
    divisor: int


def _count_look(same: list[Domain], max_buckets: int) -> int:
    """Number of strategies of variables with one dtype that are all sparse or all dense."""
    classes = [_class(members, kinds, same, max_buckets) for members, kinds in _kinds_by_members(same).items()]
    deciders = [_Decider.of(domain, index, classes) for index, domain in enumerate(same)]

    def count_decisions(fixed: Sequence[int]) -> int:
        return math.prod(decider.choices(fixed) for decider in deciders)

    divisor = math.prod(kind_class.divisor for kind_class in classes)
    if math.prod(len(kind_class.weights) for kind_class in classes) > MOST_TERMS and len(classes) > 1:
        return _largest_term(classes, count_decisions) // divisor
    terms = (
        math.prod(kind_class.weights[names] for kind_class, names in zip(classes, fixed, strict=True))
        * count_decisions(fixed)
        for fixed in product(*(range(len(kind_class.weights)) for kind_class in classes))
    )
    return sum(terms) // divisor


def _kinds_by_members(same: list[Domain]) -> dict[frozenset[int], int]:
    """For each set of variables (by index), the number of sharable bucket kinds offered to exactly this set."""
    offered: dict[BucketKind, set[int]] = {}
    for index, domain in enumerate(same):
        for kind in _sharable_kinds(domain):
            offered.setdefault(kind, set()).add(index)
    counts: dict[frozenset[int], int] = {}
    for members in map(frozenset, offered.values()):
        counts[members] = counts.get(members, 0) + 1
    return counts


def _sharable_kinds(domain: Domain) -> list[BucketKind]:
    return [kind for kind in map(domain.bucket_kind, domain.reductions) if kind.alone < 0]


def _class(members: frozenset[int], kinds: int, same: list[Domain], max_buckets: int) -> _Class:
    most_shards = sum(max(_shards(cut) for cut in same[index].cuts) for index in members)
    buckets = min(max_buckets, most_shards)
    subfactorials = _subfactorials(buckets)
    single = [math.comb(buckets, named) * subfactorials[buckets - named] for named in range(buckets + 1)]
    weights = [1]
    for _ in range(kinds):
        weights = _convolve(weights, single)
    return _Class(members, tuple(weights), math.factorial(buckets) ** kinds)


@dataclass(frozen=True)
class _Decider:
    """Counts a variable's decisions as a function of the number of buckets in each of its classes."""

    classes: tuple[int, ...]
    cuts: tuple[_Choices, ...]

    @classmethod
    def of(cls, domain: Domain, index: int, classes: Sequence[_Class]) -> _Decider:
        own_classes = tuple(number for number, kind_class in enumerate(classes) if index in kind_class.members)
        return cls(own_classes, tuple(_choices(domain, cut) for cut in domain.cuts))

    @classmethod
    def count_alone(cls, domain: Domain, max_buckets: int) -> int:
        """Number of decisions on the variable if every offered kind has `max_buckets` buckets."""
        kinds = len(_sharable_kinds(domain))
        decider = cls(tuple(range(kinds)), tuple(_choices(domain, cut) for cut in domain.cuts))
        return decider.choices([max_buckets] * kinds)

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


def _largest_term(classes: Sequence[_Class], count_decisions: Callable[[Sequence[int]], int]) -> int:
    """The largest term of the multiple sum, by coordinate ascent over the classes."""
    fixed = [len(kind_class.weights) - 1 for kind_class in classes]

    def term(number: int, names: int) -> int:
        point = [*fixed[:number], names, *fixed[number + 1 :]]
        weighed = math.prod(kind_class.weights[at] for kind_class, at in zip(classes, point, strict=True))
        return weighed * count_decisions(point)

    best = 0
    for _ in range(2):
        for number, kind_class in enumerate(classes):
            fixed[number] = _highest(lambda names, at=number: term(at, names), len(kind_class.weights) - 1)  # type: ignore[misc]
            best = max(best, term(number, fixed[number]))
    return best


def _highest(height: Callable[[int], int], last: int) -> int:
    """The number from 0 to `last` with the largest `height`, by a search that refines around the best so far."""
    low, high = 0, last
    while high - low > 8:
        step = (high - low) // 8
        best = max(range(low, high + 1, step), key=height)
        low, high = max(0, best - step), min(last, best + step)
        if step == 1:
            break
    return max(range(low, high + 1), key=height)


def _convolve(first: Sequence[int], second: Sequence[int]) -> list[int]:
    result = [0] * (len(first) + len(second) - 1)
    for index, left in enumerate(first):
        for offset, right in enumerate(second):
            result[index + offset] += left * right
    return result


def _subfactorials(most: int) -> list[int]:
    values = [1]
    for count in range(1, most + 1):
        values.append(count * values[-1] + (-1) ** count)
    return values
