"""Chooses the finalists of a search, and builds the requests that time a strategy again in a turn of the finals."""

import math
from collections.abc import Sequence
from dataclasses import replace

from autosync.baselines import is_default
from autosync.search.protocol import GIVEN
from autosync.spec import RuntimeRecord, Strategy, TimingProtocol
from autosync.stats.accuracy import strategy_medians
from trials.trial import TrialRequest

CANDIDATES = 3

BASELINES, CLOSE = 3, 1.05
"""The maximum number of baselines in the finals, and their maximum step time as a multiple of the best baseline's.
Others take part because the best one may have been lucky, and candidates are compared with it."""

SLOW, FEWEST_STEPS = 1.5, 3
"""A finalist whose step takes over `SLOW` times as long as the fastest one's gets turns with fewer steps, so that they
cost as much as the fastest one's. It keeps `FEWEST_STEPS` timed steps and one warm-up step."""


def finalists(records: Sequence[RuntimeRecord]) -> list[RuntimeRecord]:
    """The finalists, fastest first: the best candidates, the given strategies, the best baseline, and baselines close
    to it.

    Only complete trials count. A finalist is represented by its first record and ranked by the median over all of its
    records. The faster of the frameworks' default bucket sizes comes last, unless it is already among the finalists,
    and even if its trial was stopped early.
    """
    medians = strategy_medians(records)

    def seconds(record: RuntimeRecord) -> float:
        return medians[record.strategy.digest]

    first: dict[str, RuntimeRecord] = {}
    for record in sorted(
        records, key=lambda record: record.purpose != "baseline"
    ):  # a strategy that is a baseline counts as one, even if the search also proposed it
        if record.outcome == "ok" and record.purpose != "remeasure":
            first.setdefault(record.strategy.digest, record)
    ordered = sorted(first.values(), key=seconds)
    searched = [record for record in ordered if record.purpose == "search"]
    candidates = searched[:CANDIDATES] + [record for record in searched[CANDIDATES:] if record.label == GIVEN]
    baselines = [record for record in ordered if record.purpose == "baseline"][:BASELINES]
    close = [record for record in baselines if seconds(record) <= CLOSE * seconds(baselines[0])]
    chosen = sorted(candidates + close, key=seconds)
    return chosen + [record for record in _fastest_default(records) if record not in chosen] if chosen else []


def _fastest_default(records: Sequence[RuntimeRecord]) -> list[RuntimeRecord]:
    """The trial of the fastest framework default, if any was timed."""
    baselines = [record for record in records if record.purpose == "baseline" and record.timed]
    timed = [record for record in baselines if is_default(record.label, record.framework)]
    return sorted(timed, key=lambda record: record.median_seconds or math.inf)[:1]


def again(
    record: RuntimeRecord, label: str = "", strategy: Strategy | None = None, fastest_seconds: float = math.inf
) -> TrialRequest:
    """The request for a turn that times `strategy` completely, under the record's conditions.

    `strategy` and `label` default to the record's own. `fastest_seconds`, a step of the fastest finalist, limits the
    steps of a slow one; without it, a turn has half of the trial's steps.
    """
    return TrialRequest(
        strategy=strategy or record.strategy,
        protocol=turn_protocol(record, fastest_seconds),
        purpose="remeasure",
        label=label or record.label,
        run=record.run,
        seed=record.seed,
        predicted_seconds=record.predicted_seconds if strategy is None else None,
    )


def turn_protocol(record: RuntimeRecord, fastest_seconds: float = math.inf) -> TimingProtocol:
    """The protocol of a turn: half of the trial's steps, because more turns reveal drift better than more steps in each
    turn; fewer steps for a slow finalist.
    """
    protocol, seconds = record.protocol, record.median_seconds or 0.0
    share = fastest_seconds / seconds if seconds > SLOW * fastest_seconds else 1.0
    warmup, timed = protocol.warmup_steps / 2 * share, protocol.timed_steps / 2 * share
    return replace(
        protocol,
        warmup_steps=max(math.ceil(warmup), min(1, protocol.warmup_steps)),
        timed_steps=max(math.ceil(timed), min(FEWEST_STEPS, math.ceil(protocol.timed_steps / 2))),
    )


def fastest_of(chosen: Sequence[RuntimeRecord]) -> float:
    """Median step seconds of the fastest finalist in its trial; infinite for no finalists."""
    return min((record.median_seconds or math.inf for record in chosen), default=math.inf)


def seconds_of_turn(record: RuntimeRecord, fastest_seconds: float = math.inf) -> float:
    """Seconds of a turn, estimated from the strategy's trial: the setup, and the steps of the turn."""
    protocol = turn_protocol(record, fastest_seconds)
    steps = protocol.warmup_steps + protocol.timed_steps
    if record.outcome != "ok":
        return record.setup_seconds + (record.median_seconds or 0.0) * steps
    of_trial = record.protocol.warmup_steps + record.protocol.timed_steps
    return record.setup_seconds + (record.total_seconds - record.setup_seconds) * steps / of_trial
