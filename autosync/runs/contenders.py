"""The contenders of a run: every baseline and every finalist, with the median of its steps and the interval of the
median.
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autosync.baselines import FRAMEWORK_DEFAULTS
from autosync.runs.run import Run
from autosync.spec import RuntimeRecord, median_interval
from autosync.stats.paired import log_ratios, speedup_of, too_few
from autosync.words.quantities import count_of, milliseconds, speedups
from autosync.words.strategy import architecture_of, marked


@dataclass(frozen=True)
class Contender:
    """A strategy that was timed. A `remeasured` contender is represented only by its turns in the finals, any other
    by its trial.
    """

    label: str
    """The baseline's name, or how the search proposed the strategy."""

    digest: str

    purpose: str
    """`baseline` or `search`."""

    outcome: str
    """The outcome of the trial."""

    remeasured: bool
    """Whether the figures are from the finals."""

    changes_statistics: bool

    steps: int
    """The number of timed steps behind the median."""

    turns: Mapping[int, float]
    """Median step seconds of each turn, by the round's number."""

    median_seconds: float | None
    """Median over all steps; None if no step was timed."""

    interval: tuple[float, float] | None
    """The median's 95 % interval: over the medians of turns, because trials differ by more than steps do; over steps if
    there is only one turn."""

    architecture: str | None = None
    """None if the strategy itself is not known."""

    time: str = "real"

    def to_json(self) -> dict[str, Any]:
        """The contender as a row of result.json."""
        return {
            "label": self.label,
            "strategy_digest": self.digest,
            "purpose": self.purpose,
            "changes_statistics": self.changes_statistics,
            "outcome": self.outcome,
            "remeasured": self.remeasured,
            "median_seconds": self.median_seconds,
            "median_interval_seconds": list(self.interval) if self.interval else None,
            "steps": self.steps,
        }

    @property
    def name(self) -> str:
        return strategy_name(self.label, self.digest, self.purpose, self.changes_statistics, self.time)

    @property
    def name_beside_its_time(self) -> str:
        """The name for a row whose step time already shows if it is not real."""
        timed = self.median_seconds is not None
        return strategy_name(
            self.label, self.digest, self.purpose, self.changes_statistics, "real" if timed else self.time
        )


@dataclass(frozen=True)
class Ratio:
    """A contender that is `times` as fast as another one.

    The ratio `is_paired` over the rounds that both ran, as in the verdict, or else compares medians of trials at
    different times.
    """

    times: float
    is_paired: bool


def ratio_of(contender: Contender, yardstick: Contender) -> Ratio | None:
    """The speed-up of `contender` over `yardstick`; None if either was not timed."""
    if contender.median_seconds is None or yardstick.median_seconds is None:
        return None
    shared = sorted(contender.turns.keys() & yardstick.turns.keys())
    if not (contender.remeasured and yardstick.remeasured and shared):
        return Ratio(yardstick.median_seconds / contender.median_seconds, is_paired=False)
    slow, fast = ([timed.turns[turn] for turn in shared] for timed in (yardstick, contender))
    return Ratio(speedup_of(log_ratios(slow, fast)), is_paired=True)


def strategy_name(label: str, digest: str, purpose: str, changes_statistics: bool = False, time: str = "real") -> str:
    """The name of a strategy: a baseline's label; for a candidate, its label and the beginning of its digest."""
    suffix = "" if purpose == "baseline" else f" {digest[:8]}"
    return marked(label + suffix, changes_statistics, time)


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
    rows = [
        _contender(record, again.get(record.strategy.digest, {}))
        for record in trials
        if record.purpose == "baseline"
        or (record.purpose == "search" and record.strategy.digest in again.keys() - baselines)
    ]
    return sorted(rows, key=lambda contender: (not contender.remeasured, contender.median_seconds or float("inf")))


def contender_of(trial: RuntimeRecord) -> Contender:
    """The contender of `trial`'s strategy, as it was timed there."""
    return _contender(trial, {})


def contenders_of(run: Run) -> list[Contender]:
    """The contenders of a run, from its records or, if these are gone, from its result."""
    if run.trials:
        return contenders(run.trials, run.rounds)
    return [_from_json(row, run.cluster.time) for row in (run.result or {}).get("strategies", ())]


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
    """The gain over the best baseline and over the framework default, with intervals; `verdict` as in result.json."""
    interval = _interval_in_words(verdict["speedup_interval"], verdict["rounds"])
    note = f" {verdict['note']}" if verdict.get("note") else ""
    if verdict.get("changes_statistics"):
        note += " It changes the statistics of training, so compare the time to a loss, not the step time."
    baseline, default = verdict["baseline_label"], _default_in_words(verdict)
    is_default = (verdict.get("over_default") or {}).get("strategy_digest") == verdict["baseline"]
    if verdict.get("candidate") is None:
        said = f"No candidate could be compared, so the best baseline, {baseline}, is returned."
    elif verdict["beyond_noise"]:
        gain = (
            f"The strategy {verdict['winner_label']} {verdict['winner'][:8]} is {verdict['speedup']:.2f} x as fast as"
        )
        if is_default:
            which = f"the best baseline and framework default, {baseline} ({_buckets_in_words(baseline)}{interval})"
            return f"{gain} {which}.{note}"
        also = f", and {default}" if default else ""
        return f"{gain} the best baseline, {baseline} ({interval}){also}.{note}"
    else:
        said = (
            f"No candidate is faster than the best baseline beyond the noise (the best candidate: "
            f"{verdict['speedup']:.2f} x as fast, {interval}), so {baseline} is returned."
        )
    return f"{said}{f' The baseline is {default}.' if default else ''}{note}"


def _default_in_words(verdict: Mapping[str, Any]) -> str:
    """The winner's speed-up over the frameworks' default bucket size, with its interval; "" if it was not compared."""
    default = verdict.get("over_default")
    if not default:
        return ""
    interval = _interval_in_words(default["speedup_interval"], default["rounds"])
    return (
        f"{default['speedup']:.2f} x as fast as the framework default, {default['label']} "
        f"({_buckets_in_words(default['label'])}{interval})"
    )


def _buckets_in_words(label: str) -> str:
    """The framework's defaults in words, with a semicolon; "" for a label that this version does not know."""
    return f"{FRAMEWORK_DEFAULTS[label]}; " if label in FRAMEWORK_DEFAULTS else ""


def _interval_in_words(interval: Sequence[float] | None, rounds: int) -> str:
    """The interval of a speed-up with its rounds, or a remark that there were too few rounds for an interval."""
    if interval is None:
        return too_few(rounds)
    return f"95 % interval {speedups(interval)}, {count_of(rounds, 'paired round')}"


def bound_in_words(verdict: Mapping[str, Any]) -> str:
    """The lower bound with its parts, and the share of the gap that the winner closes; "" for a verdict without one."""
    bound = verdict.get("bound")
    if not bound:
        return ""
    least = milliseconds(bound["seconds"], verdict.get("time", "real"))
    of_any, parts = "the lower bound of a step with any exact strategy", bound_parts(bound["reason"])
    if "share_gone" not in bound:
        return f"{of_any.capitalize()} is {least} ({parts})."
    low, high = (f"{100 * share:.0f}" for share in bound["share_gone_interval"])
    share = f"{100 * bound['share_gone']:.0f} % [{low}, {high}]"
    return f"It closes {share} of the gap between the best baseline and {least}, {of_any} ({parts})."


def bound_parts(reason: str) -> str:
    """The parts of a bound whose `StepBound.reason` is `reason`: passes, computing, and links at their full rate."""
    for beginning, passes in AFTER_PASSES.items():
        if reason.startswith(beginning):
            return f"{passes}, then {reason.removeprefix(beginning)} at full rate"
    if reason == "the paced passes":
        return "forward and backward pass alone"
    return reason if reason.startswith("computing ") else f"{reason} at full rate"


AFTER_PASSES = {
    "paced passes and then ": "forward and backward pass",
    "paced passes from reads to gradients and then ": "passes from the reads of variables to their gradients",
}
"""The beginnings of the reasons of bounds that add links to paced passes, and the passes in words."""

PASSES_IN_WORDS = {
    "recorded": "instead of computing a forward and backward pass, a worker waits for the pass's stated duration and "
    "replays gradients that were recorded in real steps",
    "held": "a worker computes its gradients, but holds each one back until its time in a pass of the stated duration",
}
"""The pass of a paced worker, by the kind of its gradients' numbers; see `Pace`."""


def pace_explanation(numbers: str) -> str:
    """An explanation of paced times, for a cluster whose gradients have these `numbers`."""
    passes = PASSES_IN_WORDS.get(numbers, "a worker's passes take their stated duration")
    return f"Times marked paced are partly emulated: {passes}. Synchronization is real."
