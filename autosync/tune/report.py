"""The end of a run: the table of baselines and winners, and the result in JSON."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from autosync.search import Verdict, median_interval
from autosync.spec import ModelSpec, RuntimeRecord
from autosync.tune.progress import Standing, milliseconds
from autosync.tune.words import marked

__all__ = ["Outcome", "outcome_json", "outcome_table", "verdict_in_words"]


@dataclass(frozen=True)
class Outcome:
    """All that a run has found: its trials, the re-measured rounds of the finalists, and the verdict on them."""

    model: ModelSpec
    trials: Sequence[RuntimeRecord]
    rounds: Sequence[Sequence[RuntimeRecord]]
    verdict: Verdict | None


@dataclass(frozen=True)
class _Row:
    label: str
    digest: str
    purpose: str
    turns: tuple[tuple[float, ...], ...]
    remeasured: bool
    outcome: str
    changes_statistics: bool

    @property
    def steps(self) -> tuple[float, ...]:
        return tuple(seconds for turn in self.turns for seconds in turn)

    @property
    def median(self) -> float:
        return statistics.median(self.steps) if self.steps else float("inf")

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the median: over the medians of several turns, since trials differ by more than steps do."""
        if len(self.turns) > 1:
            return median_interval([statistics.median(turn) for turn in self.turns])
        return median_interval(self.steps)


def _rows(outcome: Outcome) -> list[_Row]:
    """Every baseline, and every finalist by its re-measured steps, fastest first."""
    again: dict[str, list[RuntimeRecord]] = {}
    for turn in outcome.rounds:
        for record in turn:
            if record.outcome == "ok":
                again.setdefault(record.strategy.digest, []).append(record)
    rows = []
    for record in outcome.trials:
        records = again.get(record.strategy.digest, [])
        if record.purpose == "baseline" or records:
            turns = tuple(each.step_seconds for each in records or [record] if each.step_seconds)
            strategy = record.strategy
            lossy = strategy.changes_statistics
            row = _Row(record.label, strategy.digest, record.purpose, turns, bool(records), record.outcome, lossy)
            rows.append(row)
    return sorted(rows, key=lambda row: (not row.remeasured, row.median))


def outcome_table(outcome: Outcome) -> Table:
    """Median step, its 95 % interval and the speed-up over the best baseline; finalists, re-measured, come first.

    The speed-up of what was timed once, at another moment than the yardstick, is marked with a tilde.
    """
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("strategy", min_width=22, overflow="ellipsis", no_wrap=True)
    for title, width in (("", 8), ("median", 9), ("95 % interval", 13), ("speed-up", 8)):
        table.add_column(title, justify="right" if title else "left", min_width=width, no_wrap=True)
    table.add_column("steps", no_wrap=True)
    rows = _rows(outcome)
    measured = [row for row in rows if row.purpose == "baseline" and row.steps]
    final = [row for row in measured if row.remeasured] or measured
    yardstick = min((row.median for row in final), default=float("nan"))
    winner = outcome.verdict.winner.digest if outcome.verdict else None
    for row in rows:
        low, high = row.interval if row.steps else (0.0, 0.0)
        table.add_row(
            f"{'> ' if row.digest == winner else '  '}{marked(row.label, row.changes_statistics)}",
            row.digest[:8],
            milliseconds(row.median) if row.steps else "-",
            f"{low * 1e3:.1f} - {high * 1e3:.1f}" if row.steps else "",
            f"{'' if row.remeasured else '~ '}{yardstick / row.median:.2f} x" if row.steps else "",
            _remark(row),
            style="bold" if row.digest == winner else None,
        )
    return table


def _remark(row: _Row) -> str:
    if row.remeasured:
        return f"{len(row.steps)} in {len(row.turns)} turns"
    return {"ok": f"{len(row.steps)}", "stopped": f"stopped at {len(row.steps)}"}.get(row.outcome, row.outcome)


def verdict_in_words(verdict: Verdict) -> str:
    """Whether the winner beats the best baseline, and how sure that is."""
    low, high = verdict.interval
    interval = f"95 % interval {low:.2f} to {high:.2f}"
    note = f" {verdict.note}" if verdict.note else ""
    if verdict.winner.changes_statistics:
        note += " It changes the statistics of training: what counts is the time to a loss, not the step."
    if verdict.candidate is None:
        return f"No found strategy could be compared; the best baseline, {verdict.baseline_label}, is returned.{note}"
    if verdict.beyond_noise:
        return (
            f"{verdict.winner_label} {verdict.winner.digest[:8]} is {verdict.speedup:.2f} x as fast as the best "
            f"baseline, {verdict.baseline_label} ({interval}, {verdict.rounds} rounds in turns).{note}"
        )
    return (
        f"No found strategy beats the best baseline beyond the noise (best: {verdict.speedup:.2f} x, {interval}); "
        f"{verdict.baseline_label} is returned.{note}"
    )


def outcome_json(outcome: Outcome, seconds: float) -> dict[str, Any]:
    """The result for scripts: seconds are of one step unless said otherwise."""
    standing = Standing.of(list(outcome.trials))
    verdict = outcome.verdict
    document: dict[str, Any] = {
        "format": "autosync.result/1",
        "model": outcome.model.name,
        "model_digest": outcome.model.digest,
        "trials": len(outcome.trials),
        "failed_trials": standing.failed,
        "wall_seconds": seconds,
        "simulator_pairwise_accuracy": None if math.isnan(standing.rank_agreement) else standing.rank_agreement,
        "strategies": [
            {
                "label": row.label,
                "strategy_digest": row.digest,
                "purpose": row.purpose,
                "changes_statistics": row.changes_statistics,
                "outcome": row.outcome,
                "remeasured": row.remeasured,
                "median_seconds": row.median if row.steps else None,
                "median_interval_seconds": list(row.interval) if row.steps else None,
                "steps": len(row.steps),
            }
            for row in _rows(outcome)
        ],
    }
    if verdict:
        document["verdict"] = {
            "winner": verdict.winner.digest,
            "winner_label": verdict.winner_label,
            "baseline": verdict.baseline.digest,
            "baseline_label": verdict.baseline_label,
            "speedup": verdict.speedup,
            "speedup_interval": list(verdict.interval),
            "beyond_noise": verdict.beyond_noise,
            "rounds": verdict.rounds,
            "candidate": verdict.candidate.digest if verdict.candidate else None,
            "note": verdict.note,
        }
    return document
