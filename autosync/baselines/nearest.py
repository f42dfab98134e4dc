"""The baseline that is nearest to a strategy, and the decisions in which the two differ."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from operator import ne
from typing import NamedTuple

from autosync.baselines import BASELINES
from autosync.spec import AllReduce, ClusterSpec, ModelSpec, Strategy, canonical_strategy
from autosync.words.strategy import decision_in_words


@dataclass(frozen=True)
class Difference:
    """Variables that are decided alike here, and alike otherwise there: `here` and `there` in words."""

    variables: tuple[str, ...]
    here: str
    there: str


@dataclass(frozen=True)
class Nearest:
    """The baseline whose decisions are most alike, the first of several."""

    label: str
    strategy: Strategy
    differences: tuple[Difference, ...]

    @property
    def variables(self) -> int:
        """How many variables are decided otherwise."""
        return sum(len(each.variables) for each in self.differences)


def nearest_baseline(strategy: Strategy, model: ModelSpec, cluster: ClusterSpec) -> Nearest:
    """The nearest baseline: alike devices and buckets' numbers tell no decisions apart, a bucket's variables do."""
    spellings = (strategy, canonical_strategy(strategy, cluster))
    best: tuple[dict[str, int], str, Strategy, Strategy] | None = None
    for label, baseline in BASELINES.items():
        other = baseline(model, cluster)
        theirs = _decisions(other, model)
        for mine in spellings:
            apart = {name: each.apart(theirs[name]) for name, each in _decisions(mine, model).items()}
            if best is None or sum(apart.values()) < sum(best[0].values()):
                best = apart, label, mine, other
    assert best is not None
    apart, label, mine, other = best
    names = [name for name, parts in apart.items() if parts]
    return Nearest(label, other, tuple(_grouped(names, mine, other, model)))


class _Decision(NamedTuple):
    """What is decided about a variable: whether servers or all-reduces add it up, how, in which pieces, and where."""

    kinds: Hashable
    how: Hashable
    cut: Hashable
    where: Hashable

    def apart(self, other: _Decision) -> int:
        """The distance: 1 for each part that differs, or all parts where the kinds do; else a tree of many buckets
        would be as far from a ring as from a server."""
        return sum(map(ne, self, other)) if self.kinds == other.kinds else len(self)


def _decisions(strategy: Strategy, model: ModelSpec) -> dict[str, _Decision]:
    """Every variable's decision; a bucket is known by its first variable in graph order.

    A sparse variable's rows and sufficient factors are gathered for themselves, whatever the bucket.
    """
    leaders: dict[int, str] = {}
    decisions: dict[str, _Decision] = {}
    for variable in model.variables:
        each = strategy.by_name[variable.name]
        how: list[Hashable] = []
        where: list[str] = []
        for shard in each.shards:
            if isinstance(shard, AllReduce):
                how.append((shard.algorithm, shard.compressor))
                where.append(variable.name if variable.sparse else leaders.setdefault(shard.group, variable.name))
            else:
                how.append(replace(shard, device=""))
                where.append(shard.device)
        kinds = frozenset(type(shard) for shard in each.shards)
        decisions[variable.name] = _Decision(kinds, tuple(how), each.partition, tuple(where))
    return decisions


def _grouped(names: list[str], strategy: Strategy, other: Strategy, model: ModelSpec) -> list[Difference]:
    """Variables with the same words on both sides together, most first."""
    groups: dict[tuple[str, str], list[str]] = {}
    for name in names:
        here, there = (decision_in_words(each.by_name[name], model.by_name[name]) for each in (strategy, other))
        if here == there:
            there += ", in another bucket or on another server"
        groups.setdefault((here, there), []).append(name)
    differences = [Difference(tuple(members), *words) for words, members in groups.items()]
    return sorted(differences, key=lambda each: -len(each.variables))
