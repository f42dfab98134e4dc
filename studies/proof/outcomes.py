"""The outcome of a job, from the rows of its finals and of its methods: speed-ups, the gap to the bound, trials."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from autosync.cost import StepBound
from autosync.errors import BenchError
from autosync.stats.accuracy import pairwise_accuracy
from autosync.stats.cells import CellName
from autosync.stats.estimate import Estimate, geometric_mean
from autosync.stats.paired import interval_of, log_ratios, pool_noise, speedup_of
from studies.bench.contenders import OURS
from studies.bench.live_tables import trials_to
from studies.proof.finals import BASELINE_ROLE, DEFAULT_ROLE
from studies.proof.methods import ALL_REDUCE, DDP, SEARCHERS

Row = Mapping[str, Any]

RIVALS = tuple(name for name in SEARCHERS if name != OURS)
PASSES = "the paced passes"
"""The limit of a bound that no link sets; see `autosync/cost/bound.py`."""


@final
@dataclass(frozen=True)
class JobOutcome:
    """A job whose finals have run."""

    finals: Sequence[Row]
    methods: Mapping[str, Row]
    """By method."""

    @property
    def cell(self) -> CellName:
        return CellName(self.finals[0]["model"], self.finals[0]["cluster"])

    @property
    def key(self) -> tuple[CellName, int]:
        """The cell and the seed."""
        return self.cell, int(self.finals[0]["seed"])

    @property
    def bound_seconds(self) -> float:
        return float(self.finals[0]["bound_seconds"])

    @property
    def is_limited_by_links(self) -> bool:
        return str(self.finals[0]["limit"]) != PASSES

    def finalist(self, *roles: str) -> Row | None:
        """Return the fastest finalist with one of `roles`; None if there is none with a step time."""
        timed = [row for row in self.finals if {*roles}.intersection(row["roles"]) and _median(row) < math.inf]
        return min(timed, key=_median, default=None)

    def seconds(self, *roles: str) -> float:
        """Return the median over rounds of that finalist's step; NaN if there is none."""
        row = self.finalist(*roles)
        return math.nan if row is None else _median(row)

    def speedup(self, *roles: str) -> Estimate:
        """Return the speed-up of guided search's strategy over the fastest finalist with `roles`, paired by rounds.

        NaN if one of them has no step time in a common round.
        """
        other, ours = self.finalist(*roles), self.finalist(OURS)
        if other is None or ours is None:
            return Estimate(math.nan, math.nan, math.nan)
        if other is ours:
            return Estimate(1.0, 1.0, 1.0)
        pairs = [
            (slow, fast)
            for slow, fast in zip(other["seconds"], ours["seconds"], strict=False)
            if slow is not None and fast is not None
        ]
        if not pairs:
            return Estimate(math.nan, math.nan, math.nan)
        logs = log_ratios(*zip(*pairs, strict=True))
        low, high = interval_of(logs, noise=self._noise) or (0.0, math.inf)
        return Estimate(speedup_of(logs), low, high)

    @property
    def gap_closed(self) -> float | None:
        """The share of the gap between the best baseline and the bound that guided search closes; None without gap."""
        return StepBound(self.bound_seconds, "").gap_closed(
            self.seconds(BASELINE_ROLE), self.speedup(BASELINE_ROLE).value
        )

    def room(self, *roles: str) -> float:
        """Return the speed-up over that finalist which the bound allows."""
        return self.seconds(*roles) / self.bound_seconds if self.bound_seconds > 0 else math.inf

    def trials_to_best(self, method: str) -> float:
        """Return the trials of `method` until one was within 5 % of the best trial of all methods; infinite if none."""
        row = self.methods.get(method)
        return math.inf if row is None else trials_to(_medians_of(row), self._best_trial)

    def best_so_far(self, method: str) -> list[float]:
        """Return the least step time after each trial over that of the best trial of all methods."""
        return [float(value) / self._best_trial for value in np.minimum.accumulate(_medians_of(self.methods[method]))]

    @property
    def rank_accuracy(self) -> float:
        """The share of pairs of guided search's proposals that their predictions put in order; NaN without pairs."""
        row = self.methods.get(OURS)
        if row is None:
            return math.nan
        columns = (row["purposes"], row["predicted_seconds"], row["measured_seconds"])
        known = [
            (predicted, measured)
            for purpose, predicted, measured in zip(*columns, strict=True)
            if purpose == "search" and predicted is not None and measured is not None
        ]
        return pairwise_accuracy(*zip(*known, strict=True)) if len(known) > 1 else math.nan

    @property
    def _best_trial(self) -> float:
        return min(min(_medians_of(row), default=math.inf) for row in self.methods.values())

    @property
    def _noise(self) -> float:
        complete = [row["seconds"] for row in self.finals if None not in row["seconds"]]
        return pool_noise(np.array(complete)) if complete else 0.0


def outcomes_of(finals: Iterable[Row], methods: Iterable[Row]) -> list[JobOutcome]:
    """Return the outcomes of all jobs with finals, in the order of cells and seeds."""
    by_job: dict[tuple[str, int], list[Row]] = {}
    for row in finals:
        by_job.setdefault((row["cell"], row["seed"]), []).append(row)
    runs: dict[tuple[str, int], dict[str, Row]] = {}
    for row in methods:
        runs.setdefault((row["cell"], row["seed"]), {})[row["method"]] = row
    return [JobOutcome(rows, runs.get(job, {})) for job, rows in sorted(by_job.items())]


def by_cell(outcomes: Sequence[JobOutcome]) -> dict[CellName, list[JobOutcome]]:
    cells: dict[CellName, list[JobOutcome]] = {}
    for outcome in outcomes:
        cells.setdefault(outcome.cell, []).append(outcome)
    return cells


COMPARED = {
    "over DDP's default": (DEFAULT_ROLE,),
    "over DDP by hand": (DDP,),
    "over the best baseline": (BASELINE_ROLE,),
    "over the all-reduce by hand": (ALL_REDUCE,),
    "over the best rival": RIVALS,
}
"""The comparisons of guided search, by their titles: the fastest finalist with one of the roles is compared."""


def over_seeds(jobs: Sequence[JobOutcome], roles: Sequence[str]) -> Estimate:
    """Return the geometric mean of the seeds' speed-ups with Student's interval; for one seed, that of its rounds."""
    estimates = [job.speedup(*roles) for job in jobs]
    known = [estimate for estimate in estimates if math.isfinite(estimate.value)]
    if not known:
        return Estimate(math.nan, math.nan, math.nan)
    return known[0] if len(known) == 1 else geometric_mean([estimate.value for estimate in known])


def median_over_seeds(values: Iterable[float | None]) -> float:
    """Return the median of the known values; NaN if there is none."""
    known = [value for value in values if value is not None and not math.isnan(value)]
    return statistics.median(known) if known else math.nan


def check_any(outcomes: Sequence[JobOutcome], out: object) -> None:
    """Raise `BenchError` if no job has finals."""
    if not outcomes:
        raise BenchError(f"{out} has no finals yet; run `python -m studies bench proof run` first.")


def _medians_of(row: Row) -> list[float]:
    return [math.inf if seconds is None else seconds for seconds in row["measured_seconds"]]


def _median(row: Row) -> float:
    known = [seconds for seconds in row["seconds"] if seconds is not None]
    return statistics.median(known) if known else math.inf
