"""Counterfactuals: the winner with one decision reverted, to measure the worth of that decision.

The decisions are the differences between the winner and a baseline, grouped as a person would describe them
(`changes`). Each is reverted alone and timed in turn with the winner; the ratio of the two times is the decision's
worth (`autosync.stats.paired`). Worths of several decisions do not multiply to the whole difference, because decisions
depend on each other.
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
    """The winner with one decision reverted."""

    label: str
    """The decision and its replacement, in words."""
    strategy: Strategy
    gradient_bytes: float
    """The gradient bytes of the variables concerned."""
    predicted_worth: float
    """The step time over the winner's, as predicted by the closed form before any fit."""


def counterfactuals(
    model: ModelSpec, cluster: ClusterSpec, winner: Strategy, baseline: Strategy, most: int
) -> list[Counterfactual]:
    """Return up to `most` counterfactuals of `winner` towards `baseline`, all valid and different.

    Counterfactuals with the largest predicted change of the step time come first; ties are ordered by bytes.
    """
    candidates = [
        (change, strategy)
        for change, strategy in _reversals(model, winner, baseline)
        if not any(strategy_faults(strategy, model, cluster))
    ]
    if not candidates or most < 1:
        return []
    log_seconds_of_winner, *predictions = AnalyticSimulator().predict(
        model, cluster, [winner, *(strategy for _, strategy in candidates)]
    )
    results = [
        Counterfactual(change.label, strategy, _bytes(change, model), math.exp(log_seconds - log_seconds_of_winner))
        for (change, strategy), log_seconds in zip(candidates, predictions, strict=True)
    ]
    results.sort(key=lambda result: (-round(abs(math.log(result.predicted_worth)), 6), -result.gradient_bytes))
    return results[:most]


def _reversals(model: ModelSpec, winner: Strategy, baseline: Strategy) -> Iterator[tuple[Change, Strategy]]:
    """Yield each change with the strategy that reverts it. Skip changes without effect and repeated strategies."""
    seen = {winner.digest}
    for change in changes(model, winner, baseline):
        strategy = _apply(change, model, winner)
        if strategy.digest not in seen:
            seen.add(strategy.digest)
            yield change, strategy


def _apply(change: Change, model: ModelSpec, winner: Strategy) -> Strategy:
    """Return `winner` with the decisions of `change`. A bucket that would mix kinds is split by kind."""
    numbers: dict[tuple[object, ...], int] = {}

    def renumber(name: str, shard: Synchronizer) -> Synchronizer:
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
                decisions[decision.variable],
                shards=tuple(renumber(decision.variable, shard) for shard in decisions[decision.variable].shards),
            )
            for decision in winner.variables
        ),
        overlap_next_forward=winner.overlap_next_forward if change.overlap is None else change.overlap,
    )


def _bytes(change: Change, model: ModelSpec) -> float:
    names = change.decisions or model.by_name
    return sum(model.by_name[name].gradient_bytes for name in names)


@final
@dataclass(frozen=True)
class Worth:
    """The measured worth of a decision."""

    counterfactual: Counterfactual
    ratio: float | None
    """The step time without the decision over the winner's (over 1: the decision pays); None if no round ran both."""
    interval: tuple[float, float] | None
    """The 95 % interval of `ratio`; None if `ratio` is None or rounds are too few."""
    rounds: int
    """The number of rounds that ran both."""
    note: str = ""
    """The reason for a missing ratio or interval, or empty."""


def worth_of(
    counterfactual: Counterfactual,
    winner: Strategy,
    rounds: Sequence[Sequence[RuntimeRecord]],
) -> Worth:
    """Return the worth from the rounds that ran both strategies; see `autosync.stats.paired` for the interval."""
    mine, reverted = _medians(rounds, winner), _medians(rounds, counterfactual.strategy)
    shared = sorted(set(mine) & set(reverted))
    if not shared:
        failed = [
            record.reason
            for records in rounds
            for record in records
            if record.reason and record.strategy.digest == counterfactual.strategy.digest
        ]
        return Worth(
            counterfactual, None, None, 0, failed[-1] if failed else "The time ended before this decision was measured."
        )
    logs = log_ratios([reverted[turn] for turn in shared], [mine[turn] for turn in shared])
    interval = interval_of(logs)
    note = f"{too_few(len(shared))}." if interval is None else ""
    return Worth(counterfactual, speedup_of(logs), interval, len(shared), note)


def _medians(rounds: Sequence[Sequence[RuntimeRecord]], strategy: Strategy) -> dict[int, float]:
    """Return the median seconds per step of the strategy by round, for the rounds that it completed."""
    return {
        turn: statistics.median(record.step_seconds)
        for turn, records in enumerate(rounds)
        for record in records
        if record.outcome == "ok" and record.strategy.digest == strategy.digest
    }
