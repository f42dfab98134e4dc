"""Runs on disk as the tuner leaves them, from records with chosen step times."""

from __future__ import annotations

import functools
import json
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from autosync.baselines import BASELINES, different_strategies
from autosync.baselines.nearest import nearest_baseline
from autosync.cost import AnalyticSimulator
from autosync.dataset import RecordStore
from autosync.runs import REVERTED, csv_of
from autosync.search.verdict.counterfactuals import counterfactuals, worth_of
from autosync.search.verdict.judging import judge
from autosync.spec import RuntimeRecord, Strategy, TimingProtocol
from autosync.spec.address import Place
from autosync.tune.directory import RunDirectory, run_description
from autosync.tune.options import TuneOptions
from autosync.tune.result import SearchResult, result_json
from search_spaces.default import SPACE
from tests import cases

__all__ = ["CLUSTER", "MODEL", "SEARCHED", "Story", "search_records", "write_finished_run", "write_run"]

MODEL, CLUSTER = cases.bert_like_model(layers=1, vocabulary=2048), cases.star_cluster(4)
SEARCHED = 26
STOPPED = "All trials have run."
ROUNDS = 4
PROTOCOL = TimingProtocol(warmup_steps=1, timed_steps=12)


@dataclass(frozen=True)
class Story:
    """The records of a run: the trials of its search in order, and its finalists' turns by round."""

    trials: tuple[RuntimeRecord, ...]
    rounds: tuple[tuple[RuntimeRecord, ...], ...] = ()
    reverted: tuple[RuntimeRecord, ...] = ()


@functools.cache
def _strategies() -> tuple[list[tuple[str, Strategy]], list[Strategy]]:
    """Baselines by name, and as many other strategies."""
    space, rng = SPACE.bind(MODEL, CLUSTER), random.Random(3)
    baselines = list(different_strategies(BASELINES, MODEL, CLUSTER).items())
    known = {strategy.digest for _, strategy in baselines}
    strategies: dict[str, Strategy] = {}
    while len(strategies) < SEARCHED:
        strategy = space.sample(rng)
        if strategy.digest not in known:
            strategies[strategy.digest] = strategy
    return baselines, list(strategies.values())


def _record(label: str, strategy: Strategy, seconds: float, number: int, purpose: str) -> RuntimeRecord:
    generator = np.random.default_rng(number)
    steps = tuple(
        float(seconds * math.exp(0.03 * deviate)) for deviate in generator.standard_normal(PROTOCOL.timed_steps)
    )
    return RuntimeRecord(
        model=MODEL,
        cluster=CLUSTER,
        strategy=strategy,
        protocol=PROTOCOL,
        outcome="ok",
        purpose=purpose,
        label=label,
        run="unnamed",
        seed=0,
        started_at=1.7e9 + 10.0 * number,
        setup_seconds=0.5,
        total_seconds=2.0,
        step_seconds=steps,
        predicted_seconds=seconds * math.exp(0.2 * float(generator.standard_normal())),
        host="example",
        versions={"tensorflow": "2.21.0", "ray": "2.60.0"},
    )


@functools.cache
def search_records(label: str = "guided") -> tuple[RuntimeRecord, ...]:
    """Baselines and candidates; the best candidate takes six tenths of the best baseline's step time.

    One candidate was stopped early, one failed and one timed out.
    """
    baselines, candidates = _strategies()
    every = [strategy for _, strategy in baselines] + candidates
    seconds = np.exp(AnalyticSimulator().predict(MODEL, CLUSTER, every)).tolist()
    best = min(range(len(baselines), len(every)), key=seconds.__getitem__)
    seconds[best] = 0.6 * min(seconds[: len(baselines)])
    records = [_record(name, strategy, seconds[at], at, "baseline") for at, (name, strategy) in enumerate(baselines)]
    for at, strategy in enumerate(candidates, len(baselines)):
        name = "explore" if at % 7 == 0 else label
        records.append(_record(name, strategy, seconds[at], at, "search"))
    worst = sorted(range(len(baselines), len(every)), key=seconds.__getitem__)[-3:]
    slow = f"After 5 timed steps the median of {1e3 * seconds[worst[0]]:.1f} ms is over 2 x the best so far, 9.9 ms."
    records[worst[0]] = replace(
        records[worst[0]], outcome="stopped", reason=slow, step_seconds=records[worst[0]].step_seconds[:5]
    )
    for at, outcome, reason in (
        (worst[1], "failed", "ValueError: no <b>memory</b> left"),
        (worst[2], "timed_out", "too slow"),
    ):
        records[at] = replace(records[at], outcome=outcome, reason=reason, step_seconds=())
    return tuple(records)


def _turn(record: RuntimeRecord, turn: int, strategy: Strategy | None = None, slower: float = 1.0) -> RuntimeRecord:
    """A further turn of a trial's strategy, or of one `slower` times as slow; later rounds are slower for all."""
    at = _seed_of(record) + 1000 * turn
    again = _record(record.label, strategy or record.strategy, (record.median_seconds or 1.0) * slower, at, "remeasure")
    drifted = tuple(seconds * (1 + 0.02 * turn) for seconds in again.step_seconds)
    return replace(again, step_seconds=drifted, started_at=1.7e9 + 5000 + 10.0 * turn)


def _seed_of(record: RuntimeRecord) -> int:
    return int(record.strategy.digest[:6], 16)


def finals_of(trials: Sequence[RuntimeRecord]) -> tuple[tuple[RuntimeRecord, ...], ...]:
    """Rounds of the two best candidates and the best baseline."""
    complete = sorted(
        (trial for trial in trials if trial.outcome == "ok"), key=lambda trial: trial.median_seconds or 0.0
    )
    chosen = [record for record in complete if record.purpose == "search"][:2]
    chosen += [record for record in complete if record.purpose == "baseline"][:1]
    return tuple(tuple(_turn(finalist, turn) for finalist in chosen) for turn in range(ROUNDS))


def write_run(directory: Path, story: Story, data: Place | None = None, command: Sequence[str] = ()) -> RunDirectory:
    """Write `run.json` and the records with the tuner's own code."""
    options = TuneOptions.create(model="bert", out=directory, data=data or directory.parent / "data", trials=40)
    run = RunDirectory.open(options)
    space = SPACE.bind(MODEL, CLUSTER)
    run.write_run(options, MODEL.digest, CLUSTER, run_description(options, space, command or ["--model", "bert"]))
    store = RecordStore.create(options.data)
    for record in (*story.trials, *(final for turn in story.rounds for final in turn), *story.reverted):
        store.append(replace(record, run=run.name))
    store.compact()
    return run


def write_finished_run(directory: Path, label: str = "guided") -> RunDirectory:
    """A finished run with counterfactuals: all files except the report."""
    trials = search_records(label)
    rounds = finals_of(trials)
    baselines = {trial.strategy.digest for trial in trials if trial.purpose == "baseline"}
    verdict = judge(rounds, baselines)
    nearest = nearest_baseline(verdict.winner, MODEL, CLUSTER)
    reverted = counterfactuals(MODEL, CLUSTER, verdict.winner, nearest.strategy, most=3)
    won = next(trial for trial in trials if trial.strategy.digest == verdict.winner.digest)
    turns = [
        [
            replace(_turn(won, turn), label=f"{REVERTED}nothing"),
            *(
                replace(
                    _turn(won, turn, counterfactual.strategy, 1.1 + at / 10), label=f"{REVERTED}{counterfactual.label}"
                )
                for at, counterfactual in enumerate(reverted)
            ),
        ]
        for turn in range(ROUNDS)
    ]
    worths = [worth_of(counterfactual, verdict.winner, turns) for counterfactual in reverted]
    run = write_run(directory, Story(trials, rounds, tuple(record for turn in turns for record in turn)))
    run.write_strategy(verdict.winner, ["for people"])
    run.write_result(result_json(SearchResult(MODEL, trials, rounds, verdict, STOPPED, worths), 321.0))
    (directory / "search.json").write_text(json.dumps({"searcher": {}, "seconds_gone": 300.0}))
    run.write_trials(csv_of(trials))
    return run
