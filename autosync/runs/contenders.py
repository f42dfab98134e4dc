"""The contenders of a run: every baseline and every finalist, with the median of its steps and how sure that is."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autosync.baselines import FRAMEWORK_DEFAULTS
from autosync.runs.run import Run
from autosync.spec import RuntimeRecord, median_interval
from autosync.stats.paired import log_ratios, speedup_of, too_few
from autosync.words.quantities import counted, speedups
from autosync.words.strategy import architecture_of, marked


@dataclass(frozen=True)
class Contender:
    """A strategy that was timed: `median_seconds` and its 95 % `interval`, both None when no step was.

    One that was `remeasured` is known by its turns in the finals alone: `turns` are their medians by the number of the
    round, and the interval is over them, since trials differ by more than steps do; else it is over the `steps` of its
    trial. `architecture` is None when its strategy is not known.
    """

    label: str
    digest: str
    purpose: str
    outcome: str
    remeasured: bool
    changes_statistics: bool
    steps: int
    turns: Mapping[int, float]
    median_seconds: float | None
    interval: tuple[float, float] | None
    architecture: str | None = None
    time: str = "real"

    @property
    def name(self) -> str:
        return strategy_name(self.label, self.digest, self.purpose, self.changes_statistics, self.time)

    @property
    def name_beside_its_time(self) -> str:
        """The name for a row whose step time says already if it is not real."""
        timed = self.median_seconds is not None
        return strategy_name(
            self.label, self.digest, self.purpose, self.changes_statistics, "real" if timed else self.time
        )


@dataclass(frozen=True)
class Ratio:
    """`times` as fast as another contender: `is_paired` over the rounds that both ran, as the verdict is, or by the
    medians of trials at different times.
    """

    times: float
    is_paired: bool


def ratio_of(contender: Contender, yardstick: Contender) -> Ratio | None:
    """The speed-up of `contender` over `yardstick`; None where either was not timed."""
    if contender.median_seconds is None or yardstick.median_seconds is None:
        return None
    shared = sorted(contender.turns.keys() & yardstick.turns.keys())
    if not (contender.remeasured and yardstick.remeasured and shared):
        return Ratio(yardstick.median_seconds / contender.median_seconds, is_paired=False)
    slow, fast = ([timed.turns[turn] for turn in shared] for timed in (yardstick, contender))
    return Ratio(speedup_of(log_ratios(slow, fast)), is_paired=True)


def strategy_name(label: str, digest: str, purpose: str, changes_statistics: bool = False, time: str = "real") -> str:
    """The name of a strategy: a baseline's label; for one that was found, its label and the start of its digest."""
    found = "" if purpose == "baseline" else f" {digest[:8]}"
    return marked(label + found, changes_statistics, time)


def contenders(trials: Iterable[RuntimeRecord], rounds: Iterable[Iterable[RuntimeRecord]]) -> list[Contender]:
    """Every baseline, and every finalist by its ok turns in `rounds`: finalists first, each kind fastest first.

    A strategy that was timed again only in the search is represented by its first trial.
    """
    again: dict[str, dict[int, RuntimeRecord]] = {}
    for number, records in enumerate(rounds):
        for record in records:
            if record.outcome == "ok":
                again.setdefault(record.strategy.digest, {}).setdefault(number, record)
    trials = list(trials)
    baselines = {record.strategy.digest for record in trials if record.purpose == "baseline"}
    found = [
        _contender(record, again.get(record.strategy.digest, {}))
        for record in trials
        if record.purpose == "baseline"
        or (record.purpose == "search" and record.strategy.digest in again.keys() - baselines)
    ]
    return sorted(found, key=lambda each: (not each.remeasured, each.median_seconds or float("inf")))


def contender_of(trial: RuntimeRecord) -> Contender:
    """The strategy of `trial`, as it was timed there."""
    return _contender(trial, {})


def contenders_of(run: Run) -> list[Contender]:
    """The contenders of a run: by its records, or, where these are gone, by its result."""
    if run.trials:
        return contenders(run.trials, run.rounds)
    return [_from_json(each, run.cluster.time) for each in (run.result or {}).get("strategies", ())]


def _contender(trial: RuntimeRecord, again: Mapping[int, RuntimeRecord]) -> Contender:
    turns = again or {0: trial}
    timed = {number: record.step_seconds for number, record in turns.items() if record.step_seconds}
    steps = [seconds for turn in timed.values() for seconds in turn]
    medians = {number: statistics.median(turn) for number, turn in timed.items()}
    return Contender(
        label=trial.label,
        digest=trial.strategy.digest,
        purpose=trial.purpose,
        outcome=trial.outcome,
        remeasured=bool(again),
        changes_statistics=trial.strategy.changes_statistics,
        steps=len(steps),
        turns=medians,
        median_seconds=statistics.median(steps) if steps else None,
        interval=median_interval([*medians.values()] if len(medians) > 1 else steps) if steps else None,
        architecture=architecture_of(trial.strategy, trial.model),
        time=trial.time,
    )


def _from_json(row: Mapping[str, Any], time: str) -> Contender:
    interval = row.get("median_interval_seconds")
    return Contender(
        label=str(row["label"]),
        digest=str(row["strategy_digest"]),
        purpose=str(row["purpose"]),
        outcome=str(row["outcome"]),
        remeasured=bool(row["remeasured"]),
        changes_statistics=bool(row["changes_statistics"]),
        steps=int(row["steps"]),
        turns={},
        median_seconds=row.get("median_seconds"),
        interval=(float(interval[0]), float(interval[1])) if interval else None,
        time=time,
    )


def verdict_in_words(verdict: Mapping[str, Any]) -> str:
    """Whether the winner beats the best baseline, and how sure that is; `verdict` as it stands in result.json."""
    interval = _interval_in_words(verdict["speedup_interval"], verdict["rounds"])
    note = f" {verdict['note']}" if verdict.get("note") else ""
    if verdict.get("changes_statistics"):
        note += " It changes the statistics of training: what counts is the time to a loss, not the step."
    if verdict.get("time", "real") != "real":
        note += f" All is {verdict['time']}: passes were waited for, with {verdict['numbers']} numbers, not computed."
    baseline = verdict["baseline_label"]
    if verdict.get("candidate") is None:
        return f"No found strategy could be compared; the best baseline, {baseline}, is returned.{note}"
    if verdict["beyond_noise"]:
        return (
            f"{verdict['winner_label']} {verdict['winner'][:8]} is {verdict['speedup']:.2f} x as fast as the best "
            f"baseline, {baseline} ({interval}).{note}"
        )
    return (
        f"No found strategy beats the best baseline beyond the noise (best: {verdict['speedup']:.2f} x, {interval}); "
        f"{baseline} is returned.{note}"
    )


def _interval_in_words(interval: Sequence[float] | None, rounds: int) -> str:
    """The interval of a speed-up with its rounds; without an interval there were too few of them."""
    if interval is None:
        return too_few(rounds)
    return f"95 % interval {speedups(interval)}, {counted(rounds, 'round')} in turns"


def _whose_buckets(label: str) -> str:
    """The framework and the size in words, with a comma; "" for a label that this version does not know."""
    return f"{FRAMEWORK_DEFAULTS[label]}, " if label in FRAMEWORK_DEFAULTS else ""


def beside_the_verdict(verdict: Mapping[str, Any]) -> list[str]:
    """Sentences that compare the winner of `verdict` with the frameworks' default bucket size and with the bound."""
    said = []
    if default := verdict.get("over_default"):
        interval = _interval_in_words(default["speedup_interval"], default["rounds"])
        said.append(
            f"{verdict['winner_label']} is {default['speedup']:.2f} x as fast as {default['label']}, the frameworks' "
            f"default bucket size ({_whose_buckets(default['label'])}on autosync's own ring; {interval})."
        )
    if bound := verdict.get("bound"):
        low, high = (f"{100 * each:.0f}" for each in bound["share_gone_interval"])
        said.append(
            f"It is {100 * bound['share_gone']:.0f} % [{low}, {high}] of the way from the best baseline to the bound: "
            f"no exact strategy takes less than {bound['seconds'] * 1e3:.1f} ms, for {bound['reason']} alone."
        )
    return said
