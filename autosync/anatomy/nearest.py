"""The hand-written strategy that is nearest to another one, and the decisions in which the two differ."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from autosync.anatomy.words import decision_in_words
from autosync.baselines import BASELINES
from autosync.spec import AllReduce, ClusterSpec, ModelSpec, Strategy, canonical_strategy

__all__ = ["Difference", "Nearest", "nearest_baseline"]


@dataclass(frozen=True)
class Difference:
    """Variables that are decided alike here, and alike otherwise there: `here` and `there` in words."""

    variables: tuple[str, ...]
    here: str
    there: str


@dataclass(frozen=True)
class Nearest:
    """The baseline with the fewest variables decided otherwise, the first of several."""

    label: str
    strategy: Strategy
    differences: tuple[Difference, ...]

    @property
    def variables(self) -> int:
        """How many are decided otherwise."""
        return sum(len(each.variables) for each in self.differences)


def nearest_baseline(strategy: Strategy, model: ModelSpec, cluster: ClusterSpec) -> Nearest:
    """Devices that are alike and the numbers of buckets do not tell decisions apart; the variables of a bucket do."""
    spellings = (strategy, canonical_strategy(strategy, cluster))
    best: tuple[list[str], str, Strategy, Strategy] | None = None
    for label, baseline in BASELINES.items():
        other = baseline(model, cluster)
        for mine in spellings:
            names = _differing(mine, other, model)
            if best is None or len(names) < len(best[0]):
                best = names, label, mine, other
    assert best is not None
    names, label, mine, other = best
    return Nearest(label, other, tuple(_grouped(names, mine, other, model)))


def _differing(strategy: Strategy, other: Strategy, model: ModelSpec) -> list[str]:
    ours, theirs = _decisions(strategy, model), _decisions(other, model)
    return [name for name in ours if ours[name] != theirs[name]]


def _decisions(strategy: Strategy, model: ModelSpec) -> dict[str, Hashable]:
    """Every variable's decision; a bucket is known by its first variable in graph order.

    A sparse variable's rows and sufficient factors are gathered for themselves, whatever the bucket.
    """
    leaders: dict[int, str] = {}
    decisions: dict[str, Hashable] = {}
    for variable in model.variables:
        each = strategy.by_name[variable.name]
        shards: list[Hashable] = []
        for shard in each.shards:
            if isinstance(shard, AllReduce):
                leader = variable.name if variable.sparse else leaders.setdefault(shard.group, variable.name)
                shards.append((leader, shard.algorithm, shard.compressor))
            else:
                shards.append(shard)
        decisions[variable.name] = each.partition, tuple(shards)
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
