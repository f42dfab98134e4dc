"""Contests compared: over cells, against random search, and against what the search was built to reach."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple, final

import numpy as np
import numpy.typing as npt
from scipy.stats import binomtest

from autosync.stats.estimate import Estimate, estimate_of, median_of, resampled, share_of

ROUND = 5
"""Trials of a round, by which the hit-rate is told."""

MOST_REGRET = 1.0
"""The most that a regret counts in the area (100 %), so that one bad start does not outweigh all else."""


class Contest(NamedTuple):
    """One contest: who searched on which cell, and whether baselines were given."""

    cell: str
    searcher: str
    baselines: bool


@final
@dataclass(frozen=True, eq=False)
class Curves:
    """`best` is the least true step time among those timed so far; `clock` the seconds gone by then. `best_seconds` is
    that of the pool's best, and `baseline_seconds` of the best baseline, float64 (s,).

    `measured` is what the searcher was told, and `true` what is true, of each trial; `hits` says which trials are
    faster than the best baseline beyond the noise, NaN for baselines, for what was timed again, and without a trial.
    """

    best_seconds: Floats
    baseline_seconds: Floats
    measured: Floats
    true: Floats
    clock: Floats
    hits: Floats
    thinking_seconds: Floats

    @cached_property
    def best(self) -> Floats:
        return np.asarray(np.minimum.accumulate(self.true, axis=1))

    @property
    def regret(self) -> Floats:
        """The share by which the best so far is slower than the pool's best."""
        return np.asarray(self.best / self.best_seconds[:, None] - 1)

    @property
    def improvement(self) -> Floats:
        """The step time of the best baseline over that of the best so far."""
        return np.asarray(self.baseline_seconds[:, None] / self.best)

    @property
    def area(self) -> Floats:
        """The mean regret over all trials, (s,)."""
        return np.asarray(np.minimum(self.regret, MOST_REGRET).mean(axis=1))

    @property
    def returned_regret(self) -> Floats:
        """The regret of the strategy that was measured fastest, which noise may have made so, (s, t)."""
        rows = np.arange(len(self.measured))[:, None]
        lowest = np.minimum.accumulate(self.measured, axis=1)
        is_new = np.concatenate([np.ones((len(lowest), 1), bool), np.diff(lowest, axis=1) < 0], axis=1)
        at = np.maximum.accumulate(np.where(is_new, np.arange(lowest.shape[1]), 0), axis=1)
        return np.asarray(self.true[rows, at] / self.best_seconds[:, None] - 1)

    def trials_to(self, share: float) -> Floats:
        """Trials until the regret is at most `share`, (s,); infinite where it never was."""
        return self._first(share, np.broadcast_to(np.arange(1.0, 1 + self.true.shape[1]), self.true.shape))

    def seconds_to(self, share: float) -> Floats:
        """Seconds of trials until the regret is at most `share`, (s,); infinite where it never was."""
        return self._first(share, self.clock)

    def hit_rates(self) -> list[tuple[int, Estimate]]:
        """The last trial of each round, and the share of hits among its trials, of all seeds together."""
        rates = []
        for begin in range(0, self.hits.shape[1], ROUND):
            own = self.hits[:, begin : begin + ROUND]
            known = own[np.isfinite(own)]
            if len(known):
                rates.append((begin + own.shape[1], share_of(int(known.sum()), len(known))))
        return rates

    def _first(self, share: float, values: Floats) -> Floats:
        reached = self.regret <= share
        first = np.argmax(reached, axis=1)
        return np.where(reached.any(axis=1), values[np.arange(len(values)), first], np.inf)


def curves_of(rows: Iterable[Mapping[str, Any]]) -> dict[Contest, Curves]:
    """The curves of all contests in `rows`, in the rows' order: of the searches with the largest budget that was run,
    those taught on the same cells, and where these differ, those of which there are most."""
    by_contest: dict[Contest, dict[tuple[int, str], list[Mapping[str, Any]]]] = {}
    for row in rows:
        contest = Contest(row["cell"], row["searcher"], row["baselines"])
        by_contest.setdefault(contest, {}).setdefault((row["trials"], row["taught_on"]), []).append(row)
    found = {}
    for contest, alike in by_contest.items():
        trials, taught_on = max(alike, key=lambda each: (each[0], len(alike[each]), each[1]))
        found[contest] = _curves(alike[trials, taught_on], trials)
    return found


def _curves(rows: Sequence[Mapping[str, Any]], trials: int) -> Curves:
    rows = sorted(rows, key=lambda row: row["seed"])
    hits = [
        [hit if purpose == "search" else np.nan for hit, purpose in zip(row["hits"], row["purposes"], strict=True)]
        for row in rows
    ]
    measured = [[np.inf if each is None else each for each in row["measured_seconds"]] for row in rows]
    return Curves(
        best_seconds=np.array([row["best_seconds"] for row in rows]),
        baseline_seconds=np.array([row["baseline_seconds"] for row in rows]),
        measured=_padded(measured, trials, np.inf),
        true=_padded([row["true_seconds"] for row in rows], trials, np.inf),
        clock=np.maximum.accumulate(_padded([row["clock_seconds"] for row in rows], trials, 0.0), axis=1),
        hits=_padded(hits, trials, np.nan),
        thinking_seconds=np.array([row["search_seconds"] for row in rows]),
    )


def _padded(lists: Sequence[Sequence[float]], length: int, filling: float) -> Floats:
    return np.array([[*each, *[filling] * (length - len(each))] for each in lists], np.float64)


Floats = npt.NDArray[np.float64]

_estimate = partial(estimate_of, method="closest_observation")

YARDSTICK = "random"
CLOSE = (0.05, 0.01)
"""Regrets that count as close to the best."""

LEAST_AREA = 0.005
"""The least area that is counted, so that no ratio is one of noise."""

LEAST_SPEEDUP = 1e-3
"""The speed-up of a search that has timed nothing yet."""


@final
@dataclass(frozen=True, eq=False)
class Standings:
    """Contests with, or without, baselines given; `curves` has those alone."""

    curves: Mapping[Contest, Curves]

    @classmethod
    def of(cls, curves: Mapping[Contest, Curves], baselines: bool) -> Standings:
        return cls({contest: each for contest, each in curves.items() if contest.baselines == baselines})

    def only(self, wanted: Callable[[str], bool]) -> Standings:
        """The standings of searchers whose name is `wanted`."""
        return Standings({contest: each for contest, each in self.curves.items() if wanted(contest.searcher)})

    def undecided(self) -> Standings:
        """The standings on cells where no baseline is close to the best, by most seeds: in all others baselines alone
        come close."""
        far = 1 + CLOSE[0]
        return Standings(
            {
                contest: each
                for contest, each in self.curves.items()
                if np.median(each.baseline_seconds / each.best_seconds) > far
            }
        )

    @property
    def cells(self) -> list[str]:
        return sorted({contest.cell for contest in self.curves})

    @property
    def searchers(self) -> list[str]:
        """The searchers that searched on all cells on which any did, fewest trials first."""
        there: dict[str, set[str]] = {}
        for contest in self.curves:
            there.setdefault(contest.searcher, set()).add(contest.cell)
        names = [name for name, cells in there.items() if len(cells) == len(self.cells)]
        areas = {name: float(np.mean([each.area.mean() for each in self.own(name).values()])) for name in names}
        return sorted(names, key=lambda name: (self.trials(name).value, areas[name]))

    def own(self, searcher: str) -> dict[str, Curves]:
        """The searcher's curves by cell."""
        return {contest.cell: each for contest, each in self.curves.items() if contest.searcher == searcher}

    def trials(self, searcher: str, share: float = CLOSE[0]) -> Estimate:
        """The median of trials to within `share`, over all cells and seeds."""
        return median_of(np.concatenate([each.trials_to(share) for each in self.own(searcher).values()]))

    def area(self, searcher: str) -> Estimate:
        """The mean over cells of the seeds' mean area under the regret curve."""
        return _estimate(resampled([each.area for each in self.own(searcher).values()], np.mean).mean(axis=1))

    def reached(self, searcher: str, share: float, trials: int) -> Estimate:
        """The share of searches that were within `share` after `trials`."""
        found = np.concatenate([each.trials_to(share) for each in self.own(searcher).values()])
        return share_of(int((found <= trials).sum()), len(found))

    def fewer_trials(self, searcher: str, than: str, share: float = CLOSE[0]) -> Estimate:
        """The trials that `than` needs over those of `searcher`: geometric mean over cells of the ratio of medians.

        Searches that did not come so close count as having done it with the trial after their last, so that where
        `than` often did not, this says too little.
        """

        def counted(curves: Curves) -> Floats:
            return np.minimum(curves.trials_to(share), curves.true.shape[1] + 1.0)

        return self._times(searcher, than, counted, np.median)

    def less_area(self, searcher: str, than: str) -> Estimate:
        """The area of `than` over that of `searcher`: geometric mean over cells of the ratio of means."""
        return self._times(searcher, than, lambda curves: np.maximum(curves.area, LEAST_AREA), np.mean)

    def cells_with_less_area(self, searcher: str, than: str) -> tuple[int, int, float]:
        """Number of cells in which `searcher` has less area than `than`, of those in which they differ, and how likely
        at least so uneven a count is when neither is better (sign test, two-sided)."""
        own, others = self.own(searcher), self.own(than)
        gains = [others[cell].area.mean() - each.area.mean() for cell, each in own.items() if cell in others]
        better, differ = sum(gain > 0 for gain in gains), sum(gain != 0 for gain in gains)
        return better, differ, float(binomtest(better, differ).pvalue) if differ else 1.0

    def improvement(self, searcher: str, trials: int) -> Estimate:
        """The geometric mean over cells and seeds of the speed-up over the best baseline after `trials`."""
        own = self.own(searcher).values()
        logs = [np.log(np.maximum(each.improvement[:, :trials][:, -1], LEAST_SPEEDUP)) for each in own]
        return _estimate(np.exp(resampled(logs, np.mean).mean(axis=1)))

    def returned(self, searcher: str, trials: int) -> Estimate:
        """The median regret, after `trials`, of the strategy that was measured fastest, over all cells and seeds."""
        own = self.own(searcher).values()
        return median_of(np.concatenate([each.returned_regret[:, :trials][:, -1] for each in own]))

    def _times(
        self, searcher: str, than: str, values: Callable[[Curves], Floats], centre: Callable[..., Floats]
    ) -> Estimate:
        own, others = self.own(searcher), self.own(than)
        cells = [cell for cell in own if cell in others]
        ours = resampled([values(own[cell]) for cell in cells], centre, seed=0)
        theirs = resampled([values(others[cell]) for cell in cells], centre, seed=1)
        return _estimate(np.exp(np.log(theirs / ours).mean(axis=1)))
