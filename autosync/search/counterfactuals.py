"""Counterfactuals: a winner with one of its decisions reverted, to find out what that decision is worth.

The decisions are those in which the winner differs from a baseline, grouped as a person would tell them
(`autosync.search.reversions`). Each is reverted alone; timed in turns with the winner, the ratio of the two times is
what it is worth (`autosync.search.remeasure.speedup_interval`). Worths of several decisions do not multiply to the
whole difference: decisions depend on each other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import final

from autosync.cost import AnalyticSimulator
from autosync.search.reversions import Reversion, reversions
from autosync.spec import AllReduce, ClusterSpec, ModelSpec, Strategy, Synchronizer, VariableStrategy, strategy_faults

__all__ = ["Counterfactual", "counterfactuals"]


@final
@dataclass(frozen=True)
class Counterfactual:
    """`strategy` is the winner with one decision reverted; `label` says what is decided instead, and what was.

    `gradient_bytes` are those of the variables it concerns; `predicted_worth` is its step time over the winner's, as
    the closed form has it before anything is fitted.
    """

    label: str
    strategy: Strategy
    gradient_bytes: float
    predicted_worth: float


def counterfactuals(
    model: ModelSpec, cluster: ClusterSpec, winner: Strategy, baseline: Strategy, most: int
) -> list[Counterfactual]:
    """Up to `most` counterfactuals of `winner` towards `baseline`, all valid and different.

    Those come first that the closed form expects to change the step time most, then those that concern more bytes.
    """
    found = [
        (reversion, strategy)
        for reversion, strategy in _reverted(model, winner, baseline)
        if not any(strategy_faults(strategy, model, cluster))
    ]
    if not found or most < 1:
        return []
    own, *others = AnalyticSimulator().predict(model, cluster, [winner, *(strategy for _, strategy in found)])
    results = [
        Counterfactual(reversion.label, strategy, _bytes(reversion, model), math.exp(log_seconds - own))
        for (reversion, strategy), log_seconds in zip(found, others, strict=True)
    ]
    results.sort(key=lambda each: (-round(abs(math.log(each.predicted_worth)), 6), -each.gradient_bytes))
    return results[:most]


def _reverted(model: ModelSpec, winner: Strategy, baseline: Strategy) -> Iterator[tuple[Reversion, Strategy]]:
    """Each decision with the strategy that reverts it, but for those that change nothing or repeat another."""
    met = {winner.digest}
    for reversion in reversions(model, winner, baseline):
        strategy = _applied(reversion, model, winner)
        if strategy.digest not in met:
            met.add(strategy.digest)
            yield reversion, strategy


def _applied(reversion: Reversion, model: ModelSpec, winner: Strategy) -> Strategy:
    """`winner` with the decisions of `reversion`; a bucket that would mix kinds is split into one of each kind."""
    numbers: dict[tuple[object, ...], int] = {}

    def numbered(name: str, shard: Synchronizer) -> Synchronizer:
        if not isinstance(shard, AllReduce):
            return shard
        variable = model.by_name[name]
        kind = shard.group, variable.dtype, variable.sparse, shard.algorithm, shard.compressor
        return replace(shard, group=numbers.setdefault(kind, len(numbers)))

    decisions: Mapping[str, VariableStrategy] = winner.by_name | dict(reversion.decisions)
    return Strategy(
        replicas=reversion.replicas or winner.replicas,
        variables=tuple(
            replace(
                decisions[each.variable],
                shards=tuple(numbered(each.variable, shard) for shard in decisions[each.variable].shards),
            )
            for each in winner.variables
        ),
    )


def _bytes(reversion: Reversion, model: ModelSpec) -> float:
    names = reversion.decisions or model.by_name
    return sum(model.by_name[name].gradient_bytes for name in names)
