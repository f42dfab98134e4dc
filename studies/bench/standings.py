"""Compares contests over cells, with random search, and with the targets of the search."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple, final

import numpy as np
from scipy.stats import binomtest

from autosync.numeric import FloatArray
from autosync.stats.estimate import Estimate, estimate_of, median_of, resample, share_of

ROUND = 5
"""Trials of a round; hit-rates are given per round."""

MOST_REGRET = 1.0
"""The upper limit of a regret in the area (100 %), so that one bad start does not dominate the mean."""


class Contest(NamedTuple):
    """One contest: a searcher on a cell, with or without baselines."""

    cell: str
    searcher: str
    baselines: bool


@final
@dataclass(frozen=True, eq=False)
class Curves:
    """The searches of one contest, one row per seed: arrays (s,) over seeds, and (s, t) over seeds and trials."""

    best_seconds: FloatArray
    """Step time of the pool's best strategy, (s,)."""
    baseline_seconds: FloatArray
    """Step time of the best baseline, (s,)."""
    measured: FloatArray
    """The step time that each trial reported to the searcher, (s, t)."""
    true: FloatArray
    """The true step time of each trial's strategy, (s, t)."""
    clock: FloatArray
    """Seconds from the start of the search to the end of each trial, (s, t)."""
    hits: FloatArray
    """1 where a trial is faster than the best baseline beyond the noise, else 0; NaN for baselines, for repeated
    timings, and where no trial was run, (s, t)."""
    thinking_seconds: FloatArray
    """Processor seconds of the searcher, (s,)."""

    @cached_property
    def best(self) -> FloatArray:
        """The least true step time up to each trial, (s, t)."""
        return np.asarray(np.minimum.accumulate(self.true, axis=1))

    @property
    def regret(self) -> FloatArray:
        """The share by which the best strategy so far is slower than the pool's best, (s, t)."""
        return np.asarray(self.best / self.best_seconds[:, None] - 1)

    @property
    def improvement(self) -> FloatArray:
        """The step time of the best baseline divided by the least step time so far, (s, t)."""
        return np.asarray(self.baseline_seconds[:, None] / self.best)

    @property
    def area(self) -> FloatArray:
        """The mean regret over all trials, (s,)."""
        return np.asarray(np.minimum(self.regret, MOST_REGRET).mean(axis=1))

    @property
    def regret_of_returned(self) -> FloatArray:
        """The regret of the strategy with the least measured time, which may be due to noise, (s, t)."""
        rows = np.arange(len(self.measured))[:, None]
        lowest = np.minimum.accumulate(self.measured, axis=1)
        is_new = np.concatenate([np.ones((len(lowest), 1), bool), np.diff(lowest, axis=1) < 0], axis=1)
        at = np.maximum.accumulate(np.where(is_new, np.arange(lowest.shape[1]), 0), axis=1)
        return np.asarray(self.true[rows, at] / self.best_seconds[:, None] - 1)

    def trials_to(self, share: float) -> FloatArray:
        """Return the number of trials until the regret is at most `share`, (s,); infinite if never."""
        return self._first(share, np.broadcast_to(np.arange(1.0, 1 + self.true.shape[1]), self.true.shape))

    def seconds_to(self, share: float) -> FloatArray:
        """Return the seconds of trials until the regret is at most `share`, (s,); infinite if never."""
        return self._first(share, self.clock)

    def hit_rates(self) -> list[tuple[int, Estimate]]:
        """Return the last trial of each round, and the share of hits among the round's trials over all seeds."""
        rates = []
        for begin in range(0, self.hits.shape[1], ROUND):
            flags = self.hits[:, begin : begin + ROUND]
            known = flags[np.isfinite(flags)]
            if len(known):
                rates.append((begin + flags.shape[1], share_of(int(known.sum()), len(known))))
        return rates

    def _first(self, share: float, values: FloatArray) -> FloatArray:
        is_close = self.regret <= share
        first = np.argmax(is_close, axis=1)
        return np.where(is_close.any(axis=1), values[np.arange(len(values)), first], np.inf)


def curves_of(rows: Iterable[Mapping[str, Any]]) -> dict[Contest, Curves]:
    """Return the curves of all contests in `rows`, in the rows' order.

    A contest has the searches with the largest budget whose simulators were pretrained on the same cells. If the
    pretraining cells differ, the largest group of searches counts.
    """
    by_contest: dict[Contest, dict[tuple[int, str], list[Mapping[str, Any]]]] = {}
    for row in rows:
        contest = Contest(row["cell"], row["searcher"], row["baselines"])
        by_contest.setdefault(contest, {}).setdefault((row["trials"], row["taught_on"]), []).append(row)
    curves = {}
    for contest, alike in by_contest.items():
        trials, taught_on = max(alike, key=lambda key: (key[0], len(alike[key]), key[1]))
        curves[contest] = _curves(alike[trials, taught_on], trials)
    return curves


def _curves(rows: Sequence[Mapping[str, Any]], trials: int) -> Curves:
    rows = sorted(rows, key=lambda row: row["seed"])
    hits = [
        [hit if purpose == "search" else np.nan for hit, purpose in zip(row["hits"], row["purposes"], strict=True)]
        for row in rows
    ]
    measured = [[np.inf if seconds is None else seconds for seconds in row["measured_seconds"]] for row in rows]
    return Curves(
        best_seconds=np.array([row["best_seconds"] for row in rows]),
        baseline_seconds=np.array([row["baseline_seconds"] for row in rows]),
        measured=_pad(measured, trials, np.inf),
        true=_pad([row["true_seconds"] for row in rows], trials, np.inf),
        clock=np.maximum.accumulate(_pad([row["clock_seconds"] for row in rows], trials, 0.0), axis=1),
        hits=_pad(hits, trials, np.nan),
        thinking_seconds=np.array([row["search_seconds"] for row in rows]),
    )


def _pad(lists: Sequence[Sequence[float]], length: int, filling: float) -> FloatArray:
    return np.array([[*values, *[filling] * (length - len(values))] for values in lists], np.float64)


_estimate = partial(estimate_of, method="closest_observation")

YARDSTICK = "random"
CLOSE = (0.05, 0.01)
"""Regrets up to which a strategy counts as close to the best."""

LEAST_AREA = 0.005
"""The lower limit of an area, so that no ratio consists of noise."""

LEAST_SPEEDUP = 1e-3
"""The speed-up of a search that has no timing yet."""


@final
@dataclass(frozen=True, eq=False)
class Standings:
    """Contests that all had baselines, or all had none, by contest."""

    curves: Mapping[Contest, Curves]

    @classmethod
    def of(cls, curves: Mapping[Contest, Curves], baselines: bool) -> Standings:
        return cls({contest: contested for contest, contested in curves.items() if contest.baselines == baselines})

    def only(self, wanted: Callable[[str], bool]) -> Standings:
        """Return the standings of the searchers whose names satisfy `wanted`."""
        return Standings({contest: contested for contest, contested in self.curves.items() if wanted(contest.searcher)})

    def on_open_cells(self) -> Standings:
        """Return the standings on cells where, for most seeds, no baseline is close to the best.

        On the other cells, timing the baselines is enough to come close.
        """
        far = 1 + CLOSE[0]
        return Standings(
            {
                contest: contested
                for contest, contested in self.curves.items()
                if np.median(contested.baseline_seconds / contested.best_seconds) > far
            }
        )

    @property
    def cells(self) -> list[str]:
        return sorted({contest.cell for contest in self.curves})

    @property
    def searchers(self) -> list[str]:
        """The searchers that have results on all cells, fewest trials first."""
        cells_of: dict[str, set[str]] = {}
        for contest in self.curves:
            cells_of.setdefault(contest.searcher, set()).add(contest.cell)
        names = [name for name, cells in cells_of.items() if len(cells) == len(self.cells)]
        areas = {
            name: float(np.mean([curves.area.mean() for curves in self.curves_by_cell(name).values()]))
            for name in names
        }
        return sorted(names, key=lambda name: (self.trials(name).value, areas[name]))

    def curves_by_cell(self, searcher: str) -> dict[str, Curves]:
        """Return the searcher's curves by cell."""
        return {contest.cell: curves for contest, curves in self.curves.items() if contest.searcher == searcher}

    def trials(self, searcher: str, share: float = CLOSE[0]) -> Estimate:
        """Return the median number of trials to a regret of `share`, over all cells and seeds."""
        return median_of(np.concatenate([curves.trials_to(share) for curves in self.curves_by_cell(searcher).values()]))

    def area(self, searcher: str) -> Estimate:
        """Return the mean over cells of the seeds' mean area under the regret curve."""
        return _estimate(
            resample([curves.area for curves in self.curves_by_cell(searcher).values()], np.mean).mean(axis=1)
        )

    def share_reaching(self, searcher: str, share: float, trials: int) -> Estimate:
        """Return the share of searches with a regret of at most `share` after `trials` trials."""
        trials_needed = np.concatenate([curves.trials_to(share) for curves in self.curves_by_cell(searcher).values()])
        return share_of(int((trials_needed <= trials).sum()), len(trials_needed))

    def fewer_trials(self, searcher: str, than: str, share: float = CLOSE[0]) -> Estimate:
        """Return the trials of `than` divided by those of `searcher`: geometric mean over cells of the ratio of
        medians.

        A search that never came close counts as if the trial after its last one had. If `than` often never came close,
        the result is therefore too small.
        """

        def count_of(curves: Curves) -> FloatArray:
            return np.minimum(curves.trials_to(share), curves.true.shape[1] + 1.0)

        return self._times(searcher, than, count_of, np.median)

    def less_area(self, searcher: str, than: str) -> Estimate:
        """Return the area of `than` divided by that of `searcher`: geometric mean over cells of the ratio of means."""
        return self._times(searcher, than, lambda curves: np.maximum(curves.area, LEAST_AREA), np.mean)

    def cells_with_less_area(self, searcher: str, than: str) -> tuple[int, int, float]:
        """Count the cells where `searcher` has less area than `than`, and the cells where the areas differ.

        The third value is the two-sided p-value of a sign test.
        """
        mine, theirs = self.curves_by_cell(searcher), self.curves_by_cell(than)
        gains = [theirs[cell].area.mean() - curves.area.mean() for cell, curves in mine.items() if cell in theirs]
        better, differ = sum(gain > 0 for gain in gains), sum(gain != 0 for gain in gains)
        return better, differ, float(binomtest(better, differ).pvalue) if differ else 1.0

    def improvement(self, searcher: str, trials: int) -> Estimate:
        """Return the geometric mean over cells and seeds of the speed-up over the best baseline after `trials`
        trials."""
        by_cell = self.curves_by_cell(searcher).values()
        logs = [np.log(np.maximum(curves.improvement[:, :trials][:, -1], LEAST_SPEEDUP)) for curves in by_cell]
        return _estimate(np.exp(resample(logs, np.mean).mean(axis=1)))

    def median_regret_of_returned(self, searcher: str, trials: int) -> Estimate:
        """Return the median regret, after `trials` trials, of the strategy with the least measured time."""
        by_cell = self.curves_by_cell(searcher).values()
        return median_of(np.concatenate([curves.regret_of_returned[:, :trials][:, -1] for curves in by_cell]))

    def _times(
        self, searcher: str, than: str, values: Callable[[Curves], FloatArray], centre: Callable[..., FloatArray]
    ) -> Estimate:
        mine, theirs = self.curves_by_cell(searcher), self.curves_by_cell(than)
        cells = [cell for cell in mine if cell in theirs]
        numerators = resample([values(theirs[cell]) for cell in cells], centre, seed=1)
        denominators = resample([values(mine[cell]) for cell in cells], centre, seed=0)
        return _estimate(np.exp(np.log(numerators / denominators).mean(axis=1)))
