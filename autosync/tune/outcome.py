"""What a run has found: the tables of baselines, winners and worths, the verdict in words, and the result in JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

import autosync.runs
from autosync.runs import Contender, contenders, contenders_table
from autosync.search.verdict.counterfactuals import Worth
from autosync.search.verdict.judging import Verdict
from autosync.spec import ModelSpec, RuntimeRecord
from autosync.tune.progress import Standing

__all__ = ["Outcome", "marks_of", "outcome_json", "outcome_table", "verdict_in_words", "worths_table"]


@dataclass(frozen=True)
class Outcome:
    """All that a run has found: its trials, the re-measured rounds of the finalists, and the verdict on them.

    `stopped_because` says in a sentence why no more trials were run; `worths` are what the winner's decisions are
    worth, None when that was not asked for.
    """

    model: ModelSpec
    trials: Sequence[RuntimeRecord]
    rounds: Sequence[Sequence[RuntimeRecord]]
    verdict: Verdict | None
    stopped_because: str = ""
    worths: Sequence[Worth] | None = None

    def contenders(self) -> list[Contender]:
        turns = [record for records in self.rounds for record in records if record.outcome == "ok"]
        return contenders(self.trials, turns)


def outcome_table(outcome: Outcome) -> Table:
    """Median step, its 95 % interval and the speed-up over the best baseline; finalists, re-measured, come first."""
    verdict = outcome.verdict
    return contenders_table(
        outcome.contenders(), verdict.winner.digest if verdict else None, verdict.baseline.digest if verdict else None
    )


def worths_table(worths: Sequence[Worth]) -> Table:
    """What each of the winner's decisions is worth: how many times as long a step takes without it."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("the winner, but", overflow="fold")
    for title in ("step takes", "95 % interval", "rounds"):
        table.add_column(title, justify="right", no_wrap=True)
    for worth in worths:
        table.add_row(
            worth.counterfactual.label,
            "-" if worth.ratio is None else f"{worth.ratio:.2f} x",
            f"{worth.interval[0]:.2f} - {worth.interval[1]:.2f}" if worth.interval else "",
            str(worth.rounds),
        )
    return table


def verdict_in_words(verdict: Verdict, marks: Mapping[str, str] | None = None) -> str:
    """Whether the winner beats the best baseline, and how sure that is; `marks` are those of `marks_of`."""
    return autosync.runs.verdict_in_words(_verdict_json(verdict, marks or {}))


def outcome_json(outcome: Outcome, seconds: float) -> dict[str, Any]:
    """The result for scripts, as `autosync.runs.documents` describes it."""
    standing = Standing.of(list(outcome.trials))
    document: dict[str, Any] = {
        "format": "autosync.result/1",
        "model": outcome.model.name,
        "model_digest": outcome.model.digest,
        "trials": len(outcome.trials),
        "failed_trials": standing.failed,
        "wall_seconds": seconds,
        "stopped_because": outcome.stopped_because,
        "simulator_pairwise_accuracy": None if math.isnan(standing.rank_agreement) else standing.rank_agreement,
        "strategies": [
            {
                "label": row.label,
                "strategy_digest": row.digest,
                "purpose": row.purpose,
                "changes_statistics": row.changes_statistics,
                "outcome": row.outcome,
                "remeasured": row.remeasured,
                "median_seconds": row.median_seconds,
                "median_interval_seconds": list(row.interval) if row.interval else None,
                "steps": row.steps,
            }
            for row in outcome.contenders()
        ],
    }
    if outcome.verdict:
        document["verdict"] = _verdict_json(outcome.verdict, marks_of(outcome.trials))
    document |= marks_of(outcome.trials)
    if outcome.worths is not None:
        document["counterfactuals"] = [_worth_json(each) for each in outcome.worths]
    return document


def marks_of(trials: Sequence[RuntimeRecord]) -> dict[str, str]:
    """What the figures of a run are, time and numbers, where they are not real ones."""
    paced = next((each for each in trials if each.time != "real"), None)
    return {} if paced is None else {"time": paced.time, "numbers": paced.numbers}


def _verdict_json(verdict: Verdict, marks: Mapping[str, str]) -> dict[str, Any]:
    return {
        "winner": verdict.winner.digest,
        "winner_label": verdict.winner_label,
        "baseline": verdict.baseline.digest,
        "baseline_label": verdict.baseline_label,
        "speedup": verdict.speedup,
        "speedup_interval": list(verdict.interval),
        "beyond_noise": verdict.beyond_noise,
        "rounds": verdict.rounds,
        "candidate": verdict.candidate.digest if verdict.candidate else None,
        "changes_statistics": verdict.winner.changes_statistics,
        "note": verdict.note,
        **marks,
    }


def _worth_json(worth: Worth) -> dict[str, Any]:
    return {
        "label": worth.counterfactual.label,
        "strategy_digest": worth.counterfactual.strategy.digest,
        "gradient_bytes": worth.counterfactual.gradient_bytes,
        "predicted_worth": worth.counterfactual.predicted_worth,
        "worth": worth.ratio,
        "worth_interval": list(worth.interval) if worth.interval else None,
        "rounds": worth.rounds,
        "note": worth.note,
    }
