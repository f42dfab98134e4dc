"""The standing of a search: the best so far, the best baseline, and how well the simulator has ranked strategies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from autosync.spec import RuntimeRecord
from autosync.stats.accuracy import pairwise_accuracy, strategy_medians

FEWEST_RANKED = 5
"""The fewest strategies for which the ranking is reported, because fewer than ten pairs give no meaningful share."""


@dataclass(frozen=True)
class Standing:
    """The standing of a search after its records so far."""

    best: RuntimeRecord | None
    """The first record of the fastest strategy; None before a trial succeeded."""

    best_seconds: float | None
    """Median step seconds of the fastest strategy, over all its timings."""

    best_baseline_seconds: float | None

    rank_agreement: float
    """Pairwise accuracy of the predictions of candidates; NaN without a pair."""

    ranked: int
    """The number of candidates with a prediction and a step time."""

    failed: int
    """The number of trials that failed, timed out or were lost."""

    @classmethod
    def of(cls, records: list[RuntimeRecord]) -> Standing:
        timed = [record for record in records if record.outcome == "ok"]
        predicted = [record for record in timed if record.predicted_seconds is not None and record.purpose == "search"]
        medians = strategy_medians(timed)
        best = min(timed, key=lambda record: medians[record.strategy.digest], default=None)
        baselines = [medians[record.strategy.digest] for record in timed if record.purpose == "baseline"]
        return cls(
            best=best,
            best_seconds=medians[best.strategy.digest] if best else None,
            best_baseline_seconds=min(baselines, default=None),
            rank_agreement=_agreement(predicted),
            ranked=len(predicted),
            failed=sum(record.outcome in ("failed", "timed_out", "lost") for record in records),
        )

    def ranking_share(self) -> str | None:
        """`rank_agreement` as a percentage; None while too few strategies are ranked."""
        return _share(self.rank_agreement, self.ranked)


def ranking_in_words(records: Sequence[RuntimeRecord]) -> str:
    """A sentence on the share of pairs that the simulator ranked correctly; "" while too few strategies are ranked.

    Candidates are mostly picked because their predictions are nearly equal, so their share says little; baselines
    differ more. Stopped baselines count, because they were timed long enough to be ranked.
    """
    baselines = [
        record for record in records if record.purpose == "baseline" and record.predicted_seconds and record.timed
    ]
    of_baselines = _share(_agreement(baselines), len(baselines))
    searched = Standing.of(list(records)).ranking_share()
    parts = [f"{of_baselines} of baseline pairs"] if of_baselines else []
    parts += [f"{searched} of candidate pairs"] if searched else []
    close = " (candidates are close by design)" if searched else ""
    return f"Simulator ranking: {' and '.join(parts)} in the right order{close}." if parts else ""


def _agreement(records: Sequence[RuntimeRecord]) -> float:
    """Pairwise accuracy of the predictions."""
    return pairwise_accuracy(
        [record.predicted_seconds or 0.0 for record in records], [record.median_seconds or 0.0 for record in records]
    )


def _share(agreement: float, ranked: int) -> str | None:
    return f"{100 * agreement:.0f} %" if ranked >= FEWEST_RANKED and not math.isnan(agreement) else None
