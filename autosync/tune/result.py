"""What a run has found: the tables of baselines, winners and worths, the verdict in words, and the result in JSON."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autosync.cost import step_bound
from autosync.runs import Contender, beside_the_verdict, contenders, contenders_table
from autosync.runs.tables import FittedTable
from autosync.search.verdict.counterfactuals import Worth
from autosync.search.verdict.judging import Verdict
from autosync.spec import ModelSpec, RuntimeRecord
from autosync.tune.progress import Standing


@dataclass(frozen=True)
class Result:
    """The result of a run: its trials, the re-measured rounds of the finalists, and the verdict on them.

    `stopped_because` says in a sentence why no more trials were run; `worths` are what the winner's decisions are
    worth, None when that was not asked for.
    """

    model: ModelSpec
    trials: Sequence[RuntimeRecord]
    rounds: Sequence[Sequence[RuntimeRecord]]
    verdict: Verdict
    stopped_because: str = ""
    worths: Sequence[Worth] | None = None

    def contenders(self) -> list[Contender]:
        return contenders(self.trials, self.rounds)


def result_table(result: Result) -> FittedTable:
    """Median step, its 95 % interval and the speed-up over the best baseline; finalists, re-measured, come first."""
    verdict = result.verdict
    return contenders_table(result.contenders(), verdict.winner.digest, verdict.baseline.digest)


def worths_table(worths: Sequence[Worth]) -> FittedTable:
    """What each of the winner's decisions is worth: how many times as long a step takes without it."""
    table = FittedTable()
    table.texts("the winner, but")
    table.numbers("step takes", "95 % interval", "rounds")
    for worth in worths:
        cells = (
            worth.counterfactual.label,
            "-" if worth.ratio is None else f"{worth.ratio:.2f} x",
            f"{worth.interval[0]:.2f} - {worth.interval[1]:.2f}" if worth.interval else "",
            str(worth.rounds),
        )
        table.row(cells)
    return table


def beside_in_words(result: Result) -> list[str]:
    """Sentences that compare the winner with the frameworks' default bucket size and with the bound."""
    return beside_the_verdict(_judged_json(result, result.verdict))


def result_json(result: Result, seconds: float) -> dict[str, Any]:
    """The result for scripts, as `autosync.runs.documents` describes it."""
    standing = Standing.of(list(result.trials))
    document: dict[str, Any] = {
        "format": "autosync.result/1",
        "model": result.model.name,
        "model_digest": result.model.digest,
        "trials": len(result.trials),
        "failed_trials": standing.failed,
        "wall_seconds": seconds,
        "stopped_because": result.stopped_because,
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
            for row in result.contenders()
        ],
        "verdict": _judged_json(result, result.verdict),
    }
    document |= marks_of(result.trials)
    if result.worths is not None:
        document["counterfactuals"] = [_worth_json(each) for each in result.worths]
    return document


def _judged_json(result: Result, verdict: Verdict) -> dict[str, Any]:
    """The verdict with what stands beside it: the default of frameworks, and the bound."""
    document = verdict_json(verdict, marks_of(result.trials))
    if default := verdict.over_default:
        document["over_default"] = {
            "strategy_digest": default.digest,
            "label": default.label,
            "speedup": default.speedup,
            "speedup_interval": _ends(default.interval),
            "rounds": default.rounds,
        }
    baseline = next((each for each in result.contenders() if each.digest == verdict.baseline.digest), None)
    if not verdict.beyond_noise or verdict.interval is None or baseline is None or baseline.median_seconds is None:
        return document
    bound = step_bound(result.model, result.trials[0].cluster)
    shares = [bound.share_gone(baseline.median_seconds, each) for each in (verdict.speedup, *verdict.interval)]
    known = [each for each in shares if each is not None]
    if known:
        share, *interval = known
        document["bound"] = {
            "seconds": bound.seconds,
            "reason": bound.reason,
            "share_gone": share,
            "share_gone_interval": interval,
        }
    return document


def marks_of(trials: Sequence[RuntimeRecord]) -> dict[str, str]:
    """What the figures of a run are, time and numbers, where they are not real ones."""
    paced = next((each for each in trials if each.time != "real"), None)
    return {} if paced is None else {"time": paced.time, "numbers": paced.numbers}


def verdict_json(verdict: Verdict, marks: Mapping[str, str]) -> dict[str, Any]:
    return {
        "winner": verdict.winner.digest,
        "winner_label": verdict.winner_label,
        "baseline": verdict.baseline.digest,
        "baseline_label": verdict.baseline_label,
        "speedup": verdict.speedup,
        "speedup_interval": _ends(verdict.interval),
        "beyond_noise": verdict.beyond_noise,
        "rounds": verdict.rounds,
        "candidate": verdict.candidate.digest if verdict.candidate else None,
        "changes_statistics": verdict.winner.changes_statistics,
        "note": verdict.note,
        **marks,
    }


def _ends(interval: tuple[float, float] | None) -> list[float] | None:
    return None if interval is None else list(interval)


def _worth_json(worth: Worth) -> dict[str, Any]:
    return {
        "label": worth.counterfactual.label,
        "strategy_digest": worth.counterfactual.strategy.digest,
        "gradient_bytes": worth.counterfactual.gradient_bytes,
        "predicted_worth": worth.counterfactual.predicted_worth,
        "worth": worth.ratio,
        "worth_interval": _ends(worth.interval),
        "rounds": worth.rounds,
        "note": worth.note,
    }
