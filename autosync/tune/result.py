"""The result of a run: tables of finalists and of worths, the verdict in words, and the result in JSON."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autosync.cost import step_bound
from autosync.errors import AutosyncError
from autosync.runs import Contender, bound_in_words, contenders, contenders_table, verdict_in_words
from autosync.runs.tables import FittedTable
from autosync.search.verdict.counterfactuals import Worth
from autosync.search.verdict.judging import OverDefault, Verdict
from autosync.spec import ModelSpec, RuntimeRecord, Strategy
from autosync.tune.progress import Standing


@dataclass(frozen=True)
class SearchResult:
    """The result of a run: its trials, the re-measured rounds of the finalists, and the verdict on them."""

    model: ModelSpec

    trials: Sequence[RuntimeRecord]
    """The trials of the search, in order."""

    rounds: Sequence[Sequence[RuntimeRecord]]
    """The finals, by round."""

    verdict: Verdict

    stopped_because: str = ""
    """One sentence on why no more trials ran."""

    worths: Sequence[Worth] | None = None
    """The worths of the winner's decisions; None if they were not requested."""

    def contenders(self) -> list[Contender]:
        return contenders(self.trials, self.rounds)


def result_table(result: SearchResult) -> FittedTable:
    """A table of median step, its 95 % interval and the speed-up over the best baseline; re-measured finalists come
    first.
    """
    verdict = result.verdict
    return contenders_table(result.contenders(), verdict.winner.digest, verdict.baseline.digest)


def worths_table(worths: Sequence[Worth]) -> FittedTable:
    """A table of the worths of the winner's decisions: how many times as long a step takes without each."""
    table = FittedTable()
    table.texts("the winner, except")
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


def verdict_lines(result: SearchResult) -> list[str]:
    """The verdict in one or two lines: the gain over baselines, and the lower bound if it is known."""
    document = _verdict_document(result, result.verdict)
    return [line for line in (verdict_in_words(document), bound_in_words(document)) if line]


def result_json(result: SearchResult, seconds: float) -> dict[str, Any]:
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
        "strategies": [row.to_json() for row in result.contenders()],
        "verdict": _verdict_document(result, result.verdict),
    }
    document |= marks_of(result.trials)
    if result.worths is not None:
        document["counterfactuals"] = [_worth_json(worth) for worth in result.worths]
    return document


def _verdict_document(result: SearchResult, verdict: Verdict) -> dict[str, Any]:
    """The verdict in JSON, with the speed-up over the framework default and the share of the gap to the lower bound."""
    document = verdict_json(verdict, marks_of(result.trials))
    if default := verdict.over_default:
        document["over_default"] = {
            "strategy_digest": default.digest,
            "label": default.label,
            "speedup": default.speedup,
            "speedup_interval": _ends(default.interval),
            "rounds": default.rounds,
        }
    baseline = next(
        (contender for contender in result.contenders() if contender.digest == verdict.baseline.digest), None
    )
    if baseline is None or baseline.median_seconds is None:
        return document
    overlaps = any(trial.strategy.overlap_next_forward for trial in result.trials)
    bound = step_bound(result.model, result.trials[0].cluster, overlaps)
    if bound.gap_closed(baseline.median_seconds, 1.0) is None:
        return document
    document["bound"] = {"seconds": bound.seconds, "reason": bound.reason}
    if verdict.beyond_noise and verdict.interval is not None:
        share, *interval = (
            bound.gap_closed(baseline.median_seconds, speedup) for speedup in (verdict.speedup, *verdict.interval)
        )
        document["bound"] |= {"share_gone": share, "share_gone_interval": interval}
    return document


def marks_of(trials: Sequence[RuntimeRecord]) -> dict[str, str]:
    """The kind of a run's figures, `time` and `numbers`, if they are not real; else an empty dictionary."""
    paced = next((trial for trial in trials if trial.time != "real"), None)
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


def verdict_of(document: Mapping[str, Any], strategy_with: Callable[[str], Strategy | None]) -> Verdict:
    """The verdict whose JSON is `document`; `strategy_with` finds a strategy by its digest.

    Raises `AutosyncError` if a strategy is missing.
    """

    def strategy(digest: str) -> Strategy:
        if (found := strategy_with(digest)) is None:
            raise AutosyncError(
                f"The strategy {digest} of the verdict is in none of the records here; name the place of the search's."
            )
        return found

    default, candidate = document.get("over_default"), document["candidate"]
    return Verdict(
        winner=strategy(document["winner"]),
        winner_label=document["winner_label"],
        baseline=strategy(document["baseline"]),
        baseline_label=document["baseline_label"],
        candidate=None if candidate is None else strategy(candidate),
        speedup=document["speedup"],
        interval=_pair(document["speedup_interval"]),
        beyond_noise=document["beyond_noise"],
        rounds=document["rounds"],
        note=document["note"],
        over_default=default
        and OverDefault(
            default["strategy_digest"],
            default["label"],
            default["speedup"],
            _pair(default["speedup_interval"]),
            default["rounds"],
        ),
    )


def _pair(ends: Sequence[float] | None) -> tuple[float, float] | None:
    return None if ends is None else (ends[0], ends[1])


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
