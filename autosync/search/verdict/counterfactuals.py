"""Counterfactuals: a winner with one of its decisions reverted, to measure the worth of that decision.

The decisions are those in which the winner differs from a baseline, grouped as a person would tell them (`changes`).
Each is reverted alone; timed in turns with the winner, the ratio of the two times is its worth
(`autosync.stats.paired`). Worths of several decisions do not multiply to the whole difference: decisions depend on
each other.
"""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

from autosync.cost import AnalyticSimulator
from autosync.search.verdict.changes import Change, changes
from autosync.spec import (
    AllReduce,
    ClusterSpec,
    ModelSpec,
    RuntimeRecord,
    Strategy,
    Synchronizer,
    VariableStrategy,
    strategy_faults,
)
from autosync.stats.paired import interval_of, log_ratios, speedup_of, too_few


@final
@dataclass(frozen=True)
class Counterfactual:
    """`strategy` is the winner with one decision reverted; `label` names the decision and its replacement.

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
        (change, strategy)
        for change, strategy in _reverted(model, winner, baseline)
        if not any(strategy_faults(strategy, model, cluster))
    ]
    if not found or most < 1:
        return []
    own, *others = AnalyticSimulator().predict(model, cluster, [winner, *(strategy for _, strategy in found)])
    results = [
        Counterfactual(change.label, strategy, _bytes(change, model), math.exp(log_seconds - own))
        for (change, strategy), log_seconds in zip(found, others, strict=True)
    ]
    results.sort(key=lambda each: (-round(abs(math.log(each.predicted_worth)), 6), -each.gradient_bytes))
    return results[:most]


def _reverted(model: ModelSpec, winner: Strategy, baseline: Strategy) -> Iterator[tuple[Change, Strategy]]:
    """Yield each decision with the strategy that reverts it, except those that change nothing or repeat another."""
    met = {winner.digest}
    for change in changes(model, winner, baseline):
        strategy = _applied(change, model, winner)
        if strategy.digest not in met:
            met.add(strategy.digest)
            yield change, strategy


def _applied(change: Change, model: ModelSpec, winner: Strategy) -> Strategy:
    """`winner` with the decisions of `change`; a bucket that would mix kinds is split into one of each kind."""
    numbers: dict[tuple[object, ...], int] = {}

    def numbered(name: str, shard: Synchronizer) -> Synchronizer:
        if not isinstance(shard, AllReduce):
            return shard
        variable = model.by_name[name]
        kind = shard.group, variable.dtype, variable.sparse, shard.algorithm, shard.compressor
        return replace(shard, group=numbers.setdefault(kind, len(numbers)))

    decisions: Mapping[str, VariableStrategy] = winner.by_name | dict(change.decisions)
    return Strategy(
        replicas=change.replicas or winner.replicas,
        variables=tuple(
            replace(
                decisions[each.variable],
                shards=tuple(numbered(each.variable, shard) for shard in decisions[each.variable].shards),
            )
            for each in winner.variables
        ),
    )


def _bytes(change: Change, model: ModelSpec) -> float:
    names = change.decisions or model.by_name
    return sum(model.by_name[name].gradient_bytes for name in names)


@final
@dataclass(frozen=True)
class Worth:
    """`ratio` is the step time without the decision over the winner's, with its 95 % `interval`; over 1, it pays.

    Both are None when no round has both, and the interval for too few rounds; `note` says why.
    """

    counterfactual: Counterfactual
    ratio: float | None
    interval: tuple[float, float] | None
    rounds: int
    note: str = ""


def worth_of(
    counterfactual: Counterfactual,
    winner: Strategy,
    rounds: Sequence[Sequence[RuntimeRecord]],
) -> Worth:
    """The worth by the rounds in which both took a turn; see `autosync.stats.paired` for the interval."""
    mine, others = _medians(rounds, winner), _medians(rounds, counterfactual.strategy)
    shared = sorted(set(mine) & set(others))
    if not shared:
        failed = [
            each.reason
            for records in rounds
            for each in records
            if each.reason and each.strategy.digest == counterfactual.strategy.digest
        ]
        return Worth(counterfactual, None, None, 0, failed[-1] if failed else "There was no time for it.")
    logs = log_ratios([others[turn] for turn in shared], [mine[turn] for turn in shared])
    interval = interval_of(logs)
    note = f"{too_few(len(shared))}." if interval is None else ""
    return Worth(counterfactual, speedup_of(logs), interval, len(shared), note)


def _medians(rounds: Sequence[Sequence[RuntimeRecord]], strategy: Strategy) -> dict[int, float]:
    """Median step seconds of the strategy by round, for the rounds that it completed."""
    return {
        turn: statistics.median(record.step_seconds)
        for turn, records in enumerate(rounds)
        for record in records
        if record.outcome == "ok" and record.strategy.digest == strategy.digest
    }
