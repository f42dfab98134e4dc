"""The baseline that is nearest to a strategy, and the decisions in which the two differ."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from operator import ne
from typing import NamedTuple

from autosync.baselines import BASELINES, PRIORITY_BASELINES
from autosync.spec import AllReduce, ClusterSpec, ModelSpec, Strategy, canonical_strategy
from autosync.words.strategy import decision_in_words, step_end_in_words


@dataclass(frozen=True)
class Difference:
    """Variables with the same decision `here` and the same other decision `there`, both in words."""

    variables: tuple[str, ...]
    here: str
    there: str


@dataclass(frozen=True)
class Nearest:
    """The baseline whose decisions are most similar; the first of several."""

    label: str
    strategy: Strategy
    differences: tuple[Difference, ...]
    """Differences between decisions on variables."""
    step_ends: tuple[str, str] | None = None
    """How a step ends with the strategy, and how with the baseline, in words; None if both end alike."""

    @property
    def is_same(self) -> bool:
        """Whether the strategy is the baseline."""
        return not self.differences and self.step_ends is None

    @property
    def variables(self) -> int:
        """Number of variables with different decisions."""
        return sum(len(difference.variables) for difference in self.differences)


def nearest_baseline(strategy: Strategy, model: ModelSpec, cluster: ClusterSpec) -> Nearest:
    """The nearest baseline. Devices that are alike and bucket numbers make no difference; a bucket's variables do.

    Only a strategy that overlaps with the next forward pass is compared with baselines that do.
    """
    spellings = (strategy, canonical_strategy(strategy, cluster))
    best: tuple[int, dict[str, int], str, Strategy, Strategy] | None = None
    overlapped = PRIORITY_BASELINES if strategy.overlap_next_forward else {}
    for label, baseline in {**BASELINES, **overlapped}.items():
        candidate = baseline(model, cluster)
        theirs = _decisions(candidate, model)
        for mine in spellings:
            apart = {name: decision.apart(theirs[name]) for name, decision in _decisions(mine, model).items()}
            distance = sum(apart.values()) + (strategy.overlap_next_forward != candidate.overlap_next_forward)
            if best is None or distance < best[0]:
                best = distance, apart, label, mine, candidate
    assert best is not None
    _, apart, label, mine, nearest = best
    names = [name for name, parts in apart.items() if parts]
    ends = step_end_in_words(strategy), step_end_in_words(nearest)
    differences = tuple(_group_differences(names, mine, nearest, model))
    return Nearest(label, nearest, differences, ends if ends[0] != ends[1] else None)


class _Decision(NamedTuple):
    """A variable's decision: servers or all-reduces, the way of exchange, the cut, and the servers or buckets."""

    kinds: Hashable
    how: Hashable
    cut: Hashable
    where: Hashable

    def apart(self, other: _Decision) -> int:
        """The distance: the number of parts that differ, or all parts if the kinds differ. Otherwise, a tree with many
        buckets would be as far from a ring as from a server."""
        return sum(map(ne, self, other)) if self.kinds == other.kinds else len(self)


def _decisions(strategy: Strategy, model: ModelSpec) -> dict[str, _Decision]:
    """Every variable's decision; a bucket is identified by its first variable in graph order.

    Rows of sparse variables and sufficient factors are gathered separately, so their bucket does not matter.
    """
    leaders: dict[int, str] = {}
    decisions: dict[str, _Decision] = {}
    for variable in model.variables:
        decision = strategy.by_name[variable.name]
        how: list[Hashable] = []
        where: list[str] = []
        for shard in decision.shards:
            if isinstance(shard, AllReduce):
                how.append((shard.algorithm, shard.compressor))
                where.append(variable.name if variable.sparse else leaders.setdefault(shard.group, variable.name))
            else:
                how.append(replace(shard, device=""))
                where.append(shard.device)
        how += ["rows apart"] * decision.rows_apart
        kinds = frozenset(type(shard) for shard in decision.shards)
        decisions[variable.name] = _Decision(kinds, tuple(how), decision.partition, tuple(where))
    return decisions


def _group_differences(names: list[str], strategy: Strategy, baseline: Strategy, model: ModelSpec) -> list[Difference]:
    """Group variables with the same words on both sides; the largest group comes first."""
    groups: dict[tuple[str, str], list[str]] = {}
    for name in names:
        here, there = (decision_in_words(source.by_name[name], model.by_name[name]) for source in (strategy, baseline))
        if here == there:
            there += ", in another bucket or on another server"
        groups.setdefault((here, there), []).append(name)
    differences = [Difference(tuple(members), *words) for words, members in groups.items()]
    return sorted(differences, key=lambda difference: -len(difference.variables))
