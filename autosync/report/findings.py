"""A run with derived figures: numbered trials, yardstick, noise, nearest baseline, importance of factors, and
payback.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np

from autosync.baselines.nearest import Nearest, nearest_baseline
from autosync.report.importance import Importance, factors_of, importance_of
from autosync.runs import Contender, Run, contenders_of
from autosync.spec import RuntimeRecord, Strategy, strategy_faults
from autosync.stats.accuracy import Quality, quality_of
from autosync.stats.hits import Yardstick, is_hit, yardstick_of
from autosync.stats.noise import Noise, noise_of
from autosync.words.strategy import architecture_of

SEED = 0
"""The seed of every bootstrap, so that the same run gives the same report."""


@dataclass(frozen=True)
class Point:
    """One trial of the search, numbered from 1. `remeasured`: also timed in the finals; `hit`: faster than the
    yardstick.
    """

    number: int
    record: RuntimeRecord
    architecture: str
    remeasured: bool
    hit: bool

    @property
    def is_baseline(self) -> bool:
        return self.record.purpose == "baseline"

    @property
    def is_stopped(self) -> bool:
        return self.record.outcome == "stopped"

    @property
    def is_searched(self) -> bool:
        """Whether a searcher proposed the strategy: it is no baseline, and its trial was no repetition."""
        return self.record.purpose == "search"


@final
@dataclass(frozen=True)
class Findings:
    """Figures derived from a run, computed on first use; None or empty if the run lacks the data."""

    run: Run

    @cached_property
    def noise(self) -> Noise:
        """The noise, from all timings of strategies that were timed several times, in the search and in the finals."""
        return noise_of(self.run.trials, [*self.run.trials, *self.run.finals])

    @cached_property
    def yardstick(self) -> Yardstick | None:
        """The best baseline, by its timings in the search."""
        return yardstick_of(self.run.trials, self.run.best_baseline_digest, self.noise)

    @cached_property
    def points(self) -> list[Point]:
        again = {record.strategy.digest for record in self.run.finals}
        in_finals = yardstick_of(self.run.finals, self.run.best_baseline_digest, self.noise)
        yardsticks = [yardstick for yardstick in (self.yardstick, in_finals) if yardstick is not None]
        return [
            Point(
                number,
                record,
                architecture_of(record.strategy, record.model),
                record.strategy.digest in again,
                bool(yardsticks) and all(is_hit(record, yardstick, self.noise) for yardstick in yardsticks),
            )
            for number, record in enumerate(self.run.trials, 1)
        ]

    @cached_property
    def contenders(self) -> list[Contender]:
        return contenders_of(self.run)

    @cached_property
    def winner(self) -> Strategy | None:
        """The returned strategy, or the best so far, if it fits the run's model and cluster."""
        return self._fitting(self.run.winner_digest)

    @cached_property
    def best_baseline(self) -> Strategy | None:
        return self._fitting(self.run.best_baseline_digest)

    @cached_property
    def nearest(self) -> Nearest | None:
        """The baseline that is nearest to the winner."""
        if self.winner is None or self.run.model is None:
            return None
        return nearest_baseline(self.winner, self.run.model, self.run.cluster)

    @cached_property
    def payback(self) -> Payback | None:
        digest = self.run.best_baseline_digest
        seconds = next((contender.median_seconds for contender in self.contenders if contender.digest == digest), None)
        if self.run.verdict is None or seconds is None or self.run.result is None:
            return None
        return payback_of(self.run.verdict, float(self.run.result["wall_seconds"]), seconds)

    @cached_property
    def qualities(self) -> dict[str, Quality]:
        """The quality of predictions for all candidates, for the candidates of each architecture, and for the
        baselines.
        """
        searched = [point for point in self.points if point.is_searched]
        groups = {"all that was searched": searched}
        for point in searched:
            groups.setdefault(point.architecture, []).append(point)
        groups["baselines"] = [point for point in self.points if point.is_baseline]
        generator = np.random.default_rng(SEED)
        qualities = {name: quality_of([point.record for point in group], generator) for name, group in groups.items()}
        return {name: quality for name, quality in qualities.items() if quality is not None}

    @cached_property
    def importances(self) -> list[Importance]:
        """The importance of factors among all strategies that were timed, by their trials."""
        timed = [point.record for point in self.points if point.record.median_seconds is not None]
        if not timed:
            return []
        factors = factors_of([record.strategy for record in timed], timed[0].model)
        return importance_of(factors, [record.median_seconds or 0.0 for record in timed], np.random.default_rng(SEED))

    def _fitting(self, digest: str | None) -> Strategy | None:
        strategy = self.run.strategy_with(digest)
        if strategy is None or self.run.model is None:
            return None
        return None if any(strategy_faults(strategy, self.run.model, self.run.cluster)) else strategy


@dataclass(frozen=True)
class Payback:
    """The training steps after which the time saved by the winner equals the time of the search."""

    search_seconds: float

    saved_seconds: float
    """Seconds that the winner saves in each step."""

    steps: float
    """Steps after which the search has paid for itself."""

    latest: float
    """The same with the least speed-up of the interval."""

    training_seconds: float
    """Seconds that the `steps` take under the winner."""


def payback_of(verdict: Mapping[str, Any], search_seconds: float, baseline_seconds: float) -> Payback | None:
    """The payback: a speed-up s saves the share 1 - 1/s of the baseline's seconds in each step. None without a
    winner.
    """
    if not verdict.get("beyond_noise"):
        return None
    speedup, (low, _) = float(verdict["speedup"]), verdict["speedup_interval"]
    saved, least = (baseline_seconds * (1 - 1 / ratio) for ratio in (speedup, float(low)))
    steps = search_seconds / saved
    return Payback(search_seconds, saved, steps, search_seconds / least, steps * (baseline_seconds - saved))
